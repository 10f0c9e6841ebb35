"""Goes on where Debezium's SQL Server connector stopped: its offsets, one per database, as a first state.

Inside a commit Debezium orders changes otherwise than we do, so the last commit is sent again from its
beginning.

The offsets don't tell what the change tables had then. A table whose change table begins after its offset is
reported as incomplete: either it was enabled since, or what lies between was cleaned up.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from adapters.source.debezium.incremental import amid_first_snapshot, remaining
from adapters.sqlserver.server import connection
from adapters.sqlserver.server.position import LogPosition, after_lsn, check_lsn, position_of
from adapters.sqlserver.settings import SqlServerSettings
from engine.errors import StateError
from engine.isolation.incomplete import Cause, Incomplete
from engine.job.saved.state import State
from engine.model import CollectionId
from engine.snapshot.queue import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from adapters.source.debezium.offsets import StoredOffset
    from adapters.sqlserver.server.connection import Reach, Server
    from engine.config.settings import Settings


def state_of(
    settings: Settings,
    stored: Sequence[StoredOffset],
    reach: Callable[[SqlServerSettings], Reach] = connection.reach,
) -> State:
    """The state to begin with. Raises StateError, which says what to do; SourceError without an answer."""
    sqlserver = settings.source_as(SqlServerSettings)
    offsets = _by_database(stored, sqlserver.databases)
    positions = {name: position_behind(offsets[name], name) for name in sqlserver.databases}
    with closing(connection.Server(reach(sqlserver), connection.login_of(sqlserver))) as server:
        incomplete = tuple(_gaps(server, settings, positions))
    return State(
        position=position_of(tuple(positions.values())),
        snapshot=_remaining(offsets.values()),
        memory={"names": list(positions)},
        incomplete=incomplete,
    )


def _by_database(stored: Sequence[StoredOffset], names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    if len(stored) == len(names) == 1 and not stored[0].partition.get("database"):
        return {names[0]: stored[0].offset}
    found = {str(record.partition.get("database")): record.offset for record in stored}
    missing = [name for name in names if name not in found]
    if missing:
        folded = {name.casefold() for name in missing}
        spelled = ", ".join(name for name in found if name.casefold() in folded)
        raise StateError(
            f"there is no offset for the databases {', '.join(map(repr, missing))}",
            hint=f"write {spelled} in database.names, as the connector spells it"
            if spelled
            else "set database.names to those that the connector has streamed",
        )
    return found


def position_behind(offset: Mapping[str, Any], database: str) -> LogPosition:
    """The position before the last commit that was sent, or behind the log that a snapshot contains."""
    if amid_first_snapshot(offset):
        raise StateError(
            f"the offset of database {database!r} is of a snapshot that has not finished",
            hint="let the connector finish it, or begin with an empty checkpoint and snapshot.mode=initial",
        )
    commit = offset.get("commit_lsn")
    try:
        check_lsn(str(commit))
    except ValueError as error:
        raise StateError(f"the offset of database {database!r} names no commit_lsn") from error
    inside = offset.get("change_lsn") not in {None, "NULL", ""}
    return LogPosition(after_lsn(str(commit), by=-1) if inside else str(commit))


def _gaps(server: Server, settings: Settings, positions: Mapping[str, LogPosition]) -> Iterator[Incomplete]:
    for database, position in positions.items():
        with closing(server.open(database)) as questions:
            captures = questions.catalog.captures(lambda table: settings.capture.captures(*table.parts[1:]))
        starts: dict[CollectionId, str] = {}
        for capture in captures:
            starts[capture.table] = min(capture.start, starts.get(capture.table, capture.start))
        for table, start in starts.items():
            if start > after_lsn(position.commit):
                why = f"its change table begins at {start}, after the imported offset"
                yield Incomplete(table, Cause.GAP, str(position), why)


def _remaining(offsets: Iterable[Mapping[str, Any]]) -> Snapshot:
    """What is left of an incremental snapshot; the connector takes one at a time."""
    found = [queue for offset in offsets if (queue := remaining(offset, collection)).tables]
    return found[0] if found else Snapshot()


def collection(text: str) -> CollectionId:
    """The table that Debezium's text names: `database.schema.table`."""
    parts = tuple(text.split("."))
    if len(parts) != 3:
        raise StateError(
            f"the snapshot's table {text!r} can't be split into database, schema and table",
            hint="let the connector finish its snapshot, or stop it by a signal and request it here",
        )
    return CollectionId(parts)
