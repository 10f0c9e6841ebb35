"""Goes on where Debezium's MongoDB connector stopped: its resume token as a first state."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any, Final

from bson import decode
from bson.errors import InvalidBSON

from adapters.mongodb.log.position import checked
from adapters.source.debezium.incremental import amid_first_snapshot, remaining
from engine.errors import StateError
from engine.job.saved.state import State
from engine.model import CollectionId, Position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.source.debezium.offsets import StoredOffset
    from engine.config.settings import Settings

_HEX: Final = re.compile(r"[0-9A-Fa-f]{18,}")


def state_of(settings: Settings, stored: Sequence[StoredOffset]) -> State:  # noqa: ARG001  as all sources
    """The state to begin with. Raises StateError, which says what to do, if the offset can't tell."""
    if len(stored) != 1:
        raise StateError(
            f"there are {len(stored)} offsets, and the replica set has one",
            hint="give the file of one connector; sharded clusters are not supported",
        )
    offset, replica_set = stored[0].offset, str(stored[0].partition.get("rs") or "")
    if offset.get("initsync") or amid_first_snapshot(offset):
        raise StateError(
            "the offset is of a snapshot that has not finished",
            hint="let the connector finish it, or begin with an empty checkpoint and snapshot.mode=initial",
        )
    return State(
        position=_position(offset.get("resume_token")),
        snapshot=remaining(offset, lambda text: collection(text, replica_set)),
        identity={"replica_set": replica_set} if replica_set else {},
    )


def _position(token: object) -> Position:
    if not isinstance(token, str) or not token:
        raise StateError(
            "the offset has no resume token: the connector has streamed nothing yet",
            hint="let it stream one change, or begin with an empty checkpoint and snapshot.mode=initial",
        )
    try:
        return checked(Position((token, "", 0) if _HEX.fullmatch(token) else _parts(token)))
    except (ValueError, TypeError, KeyError, binascii.Error, InvalidBSON) as error:
        raise StateError("the offset's resume token can't be read") from error


def _parts(token: str) -> tuple[Any, ...]:
    """The parts of a token as later releases store it: its document, in Base64."""
    document = decode(base64.b64decode(token, validate=True))
    return document["_data"], bytes(document.get("_typeBits", b"")).hex(), 0


def collection(text: str, replica_set: str) -> CollectionId:
    """The collection that Debezium's text names: `database.collection`, maybe behind the replica set."""
    name = text.removeprefix(f"{replica_set}.") if replica_set and text.count(".") > 1 else text
    database, _dot, rest = name.partition(".")
    if not database or not rest:
        raise StateError(f"the snapshot's collection {text!r} is no name of a database and a collection")
    return CollectionId((database, rest))
