"""Reads a change event's raw BSON: what it is about, and what it lacks. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import bson
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError
from bson.timestamp import Timestamp

from adapters.mongodb.documents.bson_walk import Kind, elements, fields, int64, string
from adapters.mongodb.documents.extended_json import RELAXED, STRICT, document_text, value_text
from engine.model import CollectionId, SignalRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.mongodb.documents.bson_walk import Value

OPERATIONS = {"insert": "c", "update": "u", "replace": "u", "delete": "d"}
"""Operations on documents, with their `op` in events."""
_ANY = CodecOptions[dict[str, Any]](
    unicode_decode_error_handler="replace", datetime_conversion=DatetimeConversion.DATETIME_MS
)
_NAMESPACE = {"db": str, "coll": str}
_DESCRIBED = {"updatedFields": dict, "removedFields": list}
_NEEDED = {"operationType": str, "clusterTime": Timestamp}
_SIGNAL = ("_id", "type", "data")
WITH_DOCUMENT = ("insert", "update", "replace")


def is_change(raw: bytes) -> bool:
    """Whether these bytes are a valid change event. If not, the decoder is not to blame for a failure."""
    try:
        change = bson.decode(raw, _ANY)
    except (BSONError, ValueError):
        return False
    operation, namespace = change.get("operationType"), change.get("ns", {"db": ""})
    if not isinstance(namespace, dict) or not _has({"coll": "", **namespace}, _NAMESPACE):
        return False
    needed = _NEEDED | ({"documentKey": dict} if operation in OPERATIONS else {})
    if operation == "update":
        described = change.get("updateDescription")
        return _has(change, needed) and isinstance(described, dict) and _has(described, _DESCRIBED)
    return _has(change, needed)


def _has(document: Mapping[str, Any], kinds: Mapping[str, type]) -> bool:
    return all(isinstance(document.get(name), kind) for name, kind in kinds.items())


def collection_of(raw: bytes, namespace: Value | None) -> CollectionId | None:
    """The collection of an event's namespace; None if it names only a database."""
    if namespace is None:
        return None
    found = fields(raw, namespace.start)
    if "coll" not in found:
        return None
    return CollectionId((string(raw, found["db"].start), string(raw, found["coll"].start)))


def database_of(raw: bytes, namespace: Value | None) -> str | None:
    """The database of an event's namespace; None without a namespace."""
    return None if namespace is None else string(raw, fields(raw, namespace.start)["db"].start)


def has_document(found: dict[str, Value]) -> bool:
    """Whether the event has the changed document."""
    return "fullDocument" in found and found["fullDocument"].kind == Kind.DOCUMENT


def is_bare(operation: str, found: dict[str, Value]) -> bool:
    """Whether the event was stripped of its content because it was too large."""
    if operation == "update":
        return "updateDescription" not in found
    return operation in WITH_DOCUMENT and "fullDocument" not in found


def respelt(raw: bytes, found: dict[str, Value], operation: str) -> str | None:
    """A document's new `_id`, as in keys, if a change rewrote it; else None.

    The server treats 1 and 1.0 as equal, so a replacement, or an update by a pipeline, may swap one for the
    other. This event has the old form, and all later events have the new one.
    """
    key = found["documentKey"]
    if operation == "replace" and has_document(found):
        start = found["fullDocument"].start
        if raw.startswith(raw[key.start + 4 : key.end - 1], start + 4):
            return None
        place = _place_of_id(raw, start)
    elif operation == "update":
        described = found["updateDescription"]
        if raw.find(b"_id\0", described.start, described.end) < 0:
            return None
        place = _place_of_id(raw, fields(raw, described.start)["updatedFields"].start)
    else:
        return None
    before = _place_of_id(raw, key.start)
    if place is None or before is None or _bytes(raw, place) == _bytes(raw, before):
        return None
    text = value_text(raw, *place)
    # 32-bit and 64-bit integers are written alike, so the key stays the same.
    return None if text == value_text(raw, *before) else text


def _place_of_id(raw: bytes, start: int) -> tuple[int, int, int] | None:
    """Type, start and end of the `_id` of the document at `start`."""
    return next(
        ((kind, begin, end) for name, kind, begin, end in elements(raw, start) if name == b"_id"), None
    )


def _bytes(raw: bytes, place: tuple[int, int, int]) -> tuple[int, bytes]:
    kind, start, end = place
    return kind, raw[start:end]


def session_of(raw: bytes, found: dict[str, Value]) -> tuple[str | None, int | None]:
    """The session and number of an event's transaction; None outside transactions."""
    if "lsid" not in found or "txnNumber" not in found:
        return None, None
    return document_text(raw, found["lsid"].start, STRICT), int64(raw, found["txnNumber"].start)[0]


def signal_of(raw: bytes, found: dict[str, Value]) -> SignalRow:
    """The signal in the inserted document; its label is the resume token's text.

    A field is found by its name, else by its place, as the columns of a signal table are. So other fields
    change nothing. A missing or null value is None. `data` is JSON text, also for a document.
    """
    token = fields(raw, found["_id"].start)["_data"]
    document = fields(raw, found["fullDocument"].start)
    in_order = (*document.values(), None, None, None)
    id_, type_, data = (document.get(name, in_order[at]) for at, name in enumerate(_SIGNAL))
    return SignalRow(string(raw, token.start), _plain(raw, id_), _plain(raw, type_), _plain(raw, data))


def _plain(raw: bytes, value: Value | None) -> str | None:
    """A string's own text, None for null or a missing value, JSON for anything else."""
    if value is None or value.kind == Kind.NULL:
        return None
    if value.kind == Kind.STRING:
        return string(raw, value.start)
    return value_text(raw, *value, RELAXED)
