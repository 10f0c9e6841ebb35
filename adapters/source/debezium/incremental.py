"""What an incremental snapshot of Debezium's has left to read, as entries of the queue. Pure.

The first collection goes on from the last key that was sent, if that consists of whole numbers. Other keys
may be sorted differently here, so their collection is read again from its beginning, which loses nothing.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final

import orjson

from adapters.source.debezium.java_objects import UnknownObject, read_key
from engine.errors import StateError
from engine.model import ExecuteSnapshot, Scope, Stretch, Target
from engine.snapshot.changes.commands import execute
from engine.snapshot.queue import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.model import CollectionId, JsonKey

LABEL: Final = "import-offsets"
_COLLECTIONS: Final = "incremental_snapshot_collections"
_LAST_KEY: Final = "incremental_snapshot_primary_key"
_ID: Final = "incremental_snapshot_correlation_id"


def amid_first_snapshot(offset: Mapping[str, Any]) -> bool:
    """Whether the offset is of a snapshot before the log, or of a blocking one, that has not finished.

    From 3.0 on an incremental snapshot is marked like these. It has a place of its own, where it goes on.
    """
    kind, done = (
        offset.get("snapshot"),
        offset.get("last_snapshot_record") or offset.get("snapshot_completed"),
    )
    return bool(kind) and str(kind).upper() != "INCREMENTAL" and not done


def remaining(offset: Mapping[str, Any], named: Callable[[str], CollectionId]) -> Snapshot:
    """The queue that reads what is left; empty if no incremental snapshot was under way.

    `named` is the collection that Debezium's text names; it raises StateError. So does this for fields that
    can't be read.
    """
    text = offset.get(_COLLECTIONS)
    if not text:
        return Snapshot()
    targets = [_target(entry, named) for entry in _entries(text)]
    after = _last_key(offset.get(_LAST_KEY))
    if targets and after is not None:
        first = targets[0]
        targets[0] = Target(
            first.collection,
            first.condition,
            first.surrogate_key,
            scope=Scope(stretches=(Stretch(after, None),)),
        )
    name = offset.get(_ID)
    command = ExecuteSnapshot(LABEL, tuple(targets), id=name if isinstance(name, str) else None)
    return execute(Snapshot(), command)


def _entries(text: object) -> list[Mapping[str, Any]]:
    """The entries; those of old versions are just names with commas between."""
    if not isinstance(text, str):
        raise StateError(f"{_COLLECTIONS!r} is no text")
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return [{f"{_COLLECTIONS}_id": name.strip()} for name in text.split(",")]
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise StateError(f"{_COLLECTIONS!r} is no list of collections")
    return found


def _target(entry: Mapping[str, Any], named: Callable[[str], CollectionId]) -> Target:
    name = entry.get(f"{_COLLECTIONS}_id")
    if not isinstance(name, str) or not name:
        raise StateError(f"{_COLLECTIONS!r} has an entry without a name")
    condition = entry.get(f"{_COLLECTIONS}_additional_condition")
    surrogate = entry.get(f"{_COLLECTIONS}_surrogate_key")
    return Target(named(name), condition or None, surrogate or None)


def _last_key(text: object) -> JsonKey | None:
    """The last key that was sent, as JSON texts; None if it is not known for certain."""
    if not isinstance(text, str):
        return None
    try:
        key = read_key(_bytes(text))
    except (UnknownObject, ValueError, binascii.Error):
        return None
    if not key or not all(isinstance(value, int) and not isinstance(value, bool) for value in key):
        return None
    return tuple(orjson.dumps(value).decode() for value in key)


def _bytes(text: str) -> bytes:
    """The bytes behind a text in hexadecimal digits, or in Base64."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return base64.b64decode(text, validate=True)
