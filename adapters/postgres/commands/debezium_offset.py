"""Goes on where Debezium's PostgreSQL connector stopped: its offset as a first state.

    lsn         where the last entry that was sent lies, inside its transaction
    lsn_commit  where the last transaction that was sent ends
    lsn_proc    where the entry before the last one lies

Transactions are sent in the order of their commits. So each of these is a place before which every commit has
been sent whole, and the greatest is the closest. Only the transaction that was sent in part comes again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from adapters.postgres.server.position import LAST_LSN, position_at
from adapters.postgres.settings import PostgresSettings
from adapters.source.debezium.incremental import amid_first_snapshot, remaining
from engine.errors import StateError
from engine.job.saved.state import State
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapters.source.debezium.offsets import StoredOffset
    from engine.config.settings import Settings

_PLACES: Final = ("lsn", "lsn_commit", "lsn_proc")


def state_of(settings: Settings, stored: Sequence[StoredOffset]) -> State:
    """The state to begin with. Raises StateError, which says what to do, if the offset can't tell."""
    if len(stored) != 1:
        raise StateError(
            f"there are {len(stored)} offsets, and the connector has one",
            hint="give the file of one connector",
        )
    offset = stored[0].offset
    if amid_first_snapshot(offset):
        raise StateError(
            "the offset is of a snapshot that has not finished",
            hint="let the connector finish it, or begin with an empty checkpoint and snapshot.mode=initial",
        )
    places = [_lsn(offset, name) for name in _PLACES if offset.get(name) is not None]
    if not places:
        raise StateError("the offset names no lsn", hint="is it one of a PostgreSQL connector?")
    database = settings.source_as(PostgresSettings).database
    return State(
        position=position_at(max(places)), snapshot=remaining(offset, lambda text: collection(text, database))
    )


def _lsn(offset: Mapping[str, Any], name: str) -> int:
    found = offset[name]
    if not isinstance(found, int) or isinstance(found, bool) or not 0 < found <= LAST_LSN:
        raise StateError(f"{name!r} of the offset is no position in the log")
    return found


def collection(text: str, database: str) -> CollectionId:
    """The table that Debezium's text names: `schema.table`, maybe behind the database."""
    parts = tuple(text.split("."))
    parts = parts[1:] if len(parts) == 3 and parts[0] == database else parts
    if len(parts) != 2:
        raise StateError(
            f"the snapshot's table {text!r} can't be split into schema and table",
            hint="let the connector finish its snapshot, or stop it by a signal and request it here",
        )
    return CollectionId(parts)
