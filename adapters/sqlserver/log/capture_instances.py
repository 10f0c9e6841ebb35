"""A database's capture instances at one time, and what has become of them since. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adapters.sqlserver.log.span_planner import current
from adapters.sqlserver.server.position import ZERO, after_lsn
from engine.errors import LogRemoved, PositionLost, SourceError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from adapters.sqlserver.log.span_planner import Share
    from adapters.sqlserver.server.position import LogPosition
    from adapters.sqlserver.server.table import Capture, Table
    from engine.model import CollectionId


@dataclass(frozen=True, slots=True)
class Instances:
    """The capture instances, and the table of each by the instance's name."""

    captures: tuple[Capture, ...] = ()
    tables: Mapping[str, Table] = field(default_factory=dict)

    def at(self, position: LogPosition) -> dict[CollectionId, Table]:
        """The tables as the log describes them after a position."""
        return {capture.table: self.tables[capture.name] for capture in current(self.captures, position)}

    def described(self, table: CollectionId) -> Table | None:
        """A table as its older instance describes it; None if it has no instance."""
        return next((self.tables[capture.name] for capture in self.captures if capture.table == table), None)

    def tellers(self, position: LogPosition) -> dict[CollectionId, tuple[int, frozenset[str]]]:
        """What each table is read from after a position: a change table's id, and what the table has lost."""
        return {
            capture.table: (capture.object_id, self.tables[capture.name].lost)
            for capture in current(self.captures, position)
        }

    def since(self, table: CollectionId, position: LogPosition) -> str:
        """The commit from which the table's younger instance has its changes, or the position's if later."""
        starts = [capture.start for capture in self.captures if capture.table == table]
        return max([position.commit, *starts])

    @property
    def begins(self) -> dict[CollectionId, str]:
        """The commit from which each table's changes are there."""
        found: dict[CollectionId, str] = {}
        for capture in self.captures:
            found[capture.table] = min(capture.start, found.get(capture.table, capture.start))
        return found

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The instances' marks, to be saved with the state."""
        return tuple(Mark(capture.name, capture.object_id, capture.start) for capture in self.captures)


@dataclass(frozen=True, slots=True)
class Mark:
    """A capture instance at an earlier time: its name, its change table's id, its start LSN then."""

    name: str
    object_id: int
    start: str


def marks_of(saved: Sequence[Sequence[Any]]) -> tuple[Mark, ...]:
    """Decode from the state."""
    return tuple(Mark(str(name), int(object_id), str(start)) for name, object_id, start in saved)


def marks_out(marks: Sequence[Mark]) -> list[tuple[str, int, str]]:
    """Encode for the state."""
    return [(mark.name, mark.object_id, mark.start) for mark in marks]


def gone(known: Sequence[Mark], found: Sequence[Capture]) -> list[tuple[str, int]]:
    """The dropped instances, by name and change table id. Changes not yet read from them are lost."""
    there = {(capture.name, capture.object_id) for capture in found}
    return [named for mark in known if (named := (mark.name, mark.object_id)) not in there]


def check_reach(
    known: Sequence[Mark],
    found: Sequence[Capture],
    position: LogPosition,
    never: Collection[CollectionId] = (),
) -> dict[CollectionId, str]:
    """The tables whose changes after a position have been cleaned up, with the reason as text.

    Raises PositionLost where no table with a complete log remains, and for a lost table in `never`.
    """
    starts = {(mark.name, mark.object_id): mark.start for mark in known}
    there = [capture for capture in found if (capture.name, capture.object_id) in starts]
    lost = {
        capture.table: _lost(capture, capture.start, position)
        for capture in there
        if starts[capture.name, capture.object_id] < capture.start and capture.start > _next(position)
    }
    return _apart(lost, {capture.table for capture in there}, never)


def check_dropped(
    known: Mapping[CollectionId, str],
    found: Sequence[Capture],
    position: LogPosition,
    never: Collection[CollectionId] = (),
) -> dict[CollectionId, str]:
    """The tables whose older instance was dropped before the stream had come to the younger one's start.

    Nobody has the changes in between. `known` are the tables whose changes were streamed, with the commit
    from which they were. Raises PositionLost as `check_reach` does.
    """
    first: dict[CollectionId, Capture] = {}
    for capture in found:
        if capture.table not in first or capture.start < first[capture.table].start:
            first[capture.table] = capture
    lost = {
        table: _lost(capture, capture.start, position)
        for table, capture in first.items()
        if table in known and known[table] < capture.start and capture.start > _next(position)
    }
    return _apart(lost, set(first), never)


def check_kept(
    asked: Sequence[Share], least: Mapping[str, str], never: Collection[CollectionId] = ()
) -> dict[CollectionId, str]:
    """Like `check_reach`, for rows that may have been cleaned up while they were read.

    `least` are the least LSNs of the change tables after the read. Raises SourceError where the server does
    not show them.
    """
    lost: dict[CollectionId, PositionLost] = {}
    for share in asked:
        name, table = share.capture.name, share.capture.table
        begins = least.get(name, share.first)  # a dropped one is reported when instances are read again
        if begins == ZERO:
            raise SourceError(
                f"the server does not tell since when the change table of {table} is whole",
                where=f"capture instance {name!r}",
                hint="grant SELECT on the table's captured columns, and membership in the gating role",
            )
        if begins > share.first:
            lost[table] = _lost(share.capture, begins, share.first)
    return _apart(lost, {share.capture.table for share in asked}, never)


def _apart(
    lost: Mapping[CollectionId, PositionLost],
    tables: Collection[CollectionId],
    never: Collection[CollectionId],
) -> dict[CollectionId, str]:
    for table, error in lost.items():
        if table in never or len(lost) == len(tables):
            raise error
    return {table: error.message for table, error in lost.items()}


def _lost(capture: Capture, begins: str, stands: object) -> PositionLost:
    return LogRemoved(
        f"the change table of {capture.table} begins at {begins}, and the stream stands at {stands}",
        where=f"{capture.table.parts[0]}, capture instance {capture.name!r}",
        hint="start with an empty checkpoint and an empty sink directory, take snapshots again,"
        " and let cdc keep more (sys.sp_cdc_change_job @job_type = N'cleanup', @retention = …)",
    )


def _next(position: LogPosition) -> str:
    return after_lsn(position.commit) if position.whole else position.commit
