"""The initial snapshot on SQL Server: which locks are held, and where the log begins.

What `snapshot.isolation.mode` means:

    exclusive         tables stay locked until all are read; rows are as of the position where the log begins
    repeatable_read   locked while shapes and the position are read; rows are read under READCOMMITTEDLOCK
    snapshot          no locks; each query reads row versions as of its start
    read_committed    no locks; rows are read as the database's settings say
    read_uncommitted  no locks; uncommitted rows may be read

If locks are not held to the end, windows beside the stream keep rows and changes in order, provided that each
database has a signal table for watermarks. Without one the log waits until all rows are read; it may then
repeat changes that rows already contain. `adapters/source/initial.py` has the steps of a start.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.source.initial import FoundLog
from adapters.sqlserver.log.capture_instances import check_reach, marks_of
from adapters.sqlserver.server.forks import SentPosition, check_fork, saved_fork
from adapters.sqlserver.server.position import began_at, parse_position, position_of, positions_of
from adapters.sqlserver.settings import Isolation, SqlServerSettings
from adapters.sqlserver.snapshot.eligibility import LOCKED
from adapters.sqlserver.snapshot.locks import Locks, log_end
from engine.config.sources.selection import is_included
from engine.errors import PositionLost, SourceError
from engine.model import CollectionId, Position
from engine.snapshot.initial import to_read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from adapters.source.initial import InitialSnapshot
    from adapters.sqlserver.databases import Databases
    from adapters.sqlserver.server.connection import Server
    from adapters.sqlserver.server.position import LogPosition
    from engine.config.settings import Settings
    from engine.job.saved.state import State

_log = logging.getLogger("adapters")
_HINTS = {
    Isolation.EXCLUSIVE: LOCKED,
    Isolation.REPEATABLE_READ: LOCKED,
    Isolation.READ_COMMITTED: "",
    Isolation.SNAPSHOT: "",
    Isolation.READ_UNCOMMITTED: "NOLOCK",
}
_SNAPSHOT_SESSION = "SET TRANSACTION ISOLATION LEVEL SNAPSHOT"
_LOST, _WHAT_NOW = "the initial snapshot's locks are lost", "what is left of it is read without them"
_GIVEN_UP = {
    Isolation.READ_UNCOMMITTED: "rows that are never committed may be read",
}


@dataclass(frozen=True, slots=True)
class HeldSnapshot:
    """The tables as they were at `positions`, one of each database, while `locks` keep writers out.

    `locks` is None where the isolation mode lets writers in before all is read.
    """

    isolation: Isolation
    positions: Mapping[str, LogPosition]
    collections: tuple[CollectionId, ...]
    locks: Locks | None = None

    @property
    def position(self) -> Position:
        """Where the logs begin."""
        return position_of(list(self.positions.values()))

    @property
    def begins_at(self) -> dict[str, str]:
        """The same, as the state has it."""
        return {name: str(position) for name, position in self.positions.items()}

    def is_alive(self) -> bool:
        """Ask whether the locks are held."""
        return self.locks is not None and self.locks.is_alive()

    def close(self) -> None:
        """Release the locks."""
        if self.locks is not None:
            self.locks.release()

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.positions.values()))} ({self.isolation})"


class InitialReads:
    """How the rows of an initial snapshot are read. Used by the job's thread alone."""

    def __init__(
        self, isolation: Isolation, databases: Databases, first: InitialSnapshot[HeldSnapshot]
    ) -> None:
        self.isolation, self._databases, self._first = isolation, databases, first
        databases.initial_hint = lambda: self.hint

    @property
    def streams(self) -> bool:
        """Whether the log is streamed at all."""
        return self._first.streams

    @property
    def session(self) -> tuple[str, ...]:
        """The statements that start the sessions which read its rows."""
        return (_SNAPSHOT_SESSION,) if self.isolation is Isolation.SNAPSHOT else ()

    @property
    def hint(self) -> str:
        """The lock hint for reading rows."""
        # Our own locks would block our other sessions, and nobody can write meanwhile.
        return "NOLOCK" if self._first.held is not None else _HINTS[self.isolation]

    @property
    def beside(self) -> bool:
        """Whether windows can be read beside the stream: every database needs a way to mark them."""
        named = self._databases.names
        return self._first.streams and all(self._databases.refusal(name) is None for name in named)

    @property
    def waits(self) -> bool:
        """Whether the log waits until everything is read."""
        return self._first.held is not None or not self.beside

    def holds(self, state: State) -> bool:
        """Whether the log must wait."""
        return not self.streams or (state.snapshot.initial and self.waits)

    def tick(self, state: State) -> None:
        """Release the locks once everything has been read.

        Raises SourceError if they were lost: rows of open windows may contain later changes. The next start
        reads the rest like any other rows; without a log, it reads everything from scratch.
        """
        if self._first.held is not None and not self._first.held.is_alive():
            self._first.release()
            raise SourceError(_LOST, hint=_WHAT_NOW)
        self._first.tick(state)

    def alive(self) -> Callable[[], bool]:
        """A function that tells whether the locks held now are still held; true if there are none."""
        held = self._first.held
        return lambda: held is None or (held is self._first.held and held.is_alive())

    def position(self, database: str) -> LogPosition | None:
        """The position where a database's log begins after the snapshot."""
        begins_at = self._first.begins_at or {}
        return parse_position(begins_at[database]) if database in begins_at else None


class CaptureStart:
    """A start on the databases, whose change tables are the log. `reads` says how rows are read."""

    def __init__(self, settings: Settings, server: Server, databases: Databases, reads: InitialReads) -> None:
        self._settings, self._server, self._databases = settings, server, databases
        self._reads, self._isolation = reads, reads.isolation

    def find_log(self, state: State) -> FoundLog:
        """Check that the log continues what was sent, and that the change tables reach back to there."""
        if state.snapshot.initial:
            self._check_isolation()
        began = began_at(state.memory)
        streamed = state.position is None or self._streamed(state.position, began)
        begins_at = {name: str(position) for name, position in began.items()}
        return FoundLog(state, begins_at, self._lost(state), streamed=streamed)

    def _lost(self, state: State) -> PositionLost | None:
        if not self._reads.streams or state.position is None:
            return None
        saved = state.memory.get("databases", {})
        try:
            messages = [message for known in state.perhaps_sent for message in self._forked(known)]
            for name, position in zip(self._databases.names, positions_of(state.position), strict=True):
                known = marks_of(saved.get(name, {}).get("instances", ()))
                check_reach(known, self._databases.instances(name).captures, position)
        except PositionLost as error:
            return error
        for message in dict.fromkeys(messages):
            _log.warning(message)
        return None

    def _forked(self, state: State) -> Iterator[str]:
        """What to say of databases that have left the state's fork. Raises PositionLost."""
        positions = () if state.position is None else positions_of(state.position)
        for name, position in zip(self._databases.names, positions, strict=True):
            group = state.identity.get(name, "").partition("|")[0]
            sent = SentPosition(name, saved_fork(state.memory, name), position, grouped=bool(group))
            if message := check_fork(sent, self._databases.forks.told.get(name)):
                yield message

    def _streamed(self, position: Position, began: Mapping[str, LogPosition]) -> bool:
        """Whether the log of any database has been streamed since it began."""
        positions = dict(zip(self._databases.names, positions_of(position), strict=True))
        begun = [(positions[name], place) for name, place in began.items() if name in positions]
        return not begun or any(now > then for now, then in begun)

    def give_up(self) -> None:
        """Do nothing: the server keeps its log for nobody."""

    def first_position(self) -> Position:
        """The greatest captured position of each database."""
        return position_of(list(self._greatest().values()))

    def _greatest(self) -> dict[str, LogPosition]:
        return {name: self._databases.greatest(name) for name in self._databases.names}

    def begin(self, state: State) -> HeldSnapshot:
        """Fix the position where the logs begin. Keeps the locks that fix it if the mode requires it."""
        self._warn()
        tables = tuple(self.collections(state))
        if self._isolation not in {Isolation.EXCLUSIVE, Isolation.REPEATABLE_READ}:
            return HeldSnapshot(self._isolation, self._greatest(), tables)
        with ExitStack() as stack:
            locks = Locks(self._server, tables, self._settings.snapshot.lock_timeout_ms)
            stack.callback(locks.release)
            positions = self._locked_positions()
            if self._isolation is Isolation.REPEATABLE_READ:
                return HeldSnapshot(self._isolation, positions, tables)
            stack.pop_all()
        return HeldSnapshot(self._isolation, positions, tables, locks)

    def _warn(self) -> None:
        """Warn of what the isolation mode does not promise."""
        if self._isolation in _GIVEN_UP:
            _log.warning("snapshot.isolation.mode=%s: %s", self._isolation, _GIVEN_UP[self._isolation])
        if self._isolation is Isolation.EXCLUSIVE or self._reads.beside:
            return
        _log.warning(
            "snapshot.isolation.mode=%s, and no signal table to mark windows by: rows are read at several"
            " moments%s; name signal tables, or take snapshot.isolation.mode=exclusive",
            self._isolation,
            ", and the log may tell once more of changes that they show" if self._reads.streams else "",
        )

    def _locked_positions(self) -> dict[str, LogPosition]:
        for name in self._databases.names:
            # Nobody can change a table's shape meanwhile.
            self._databases.note(name, self._databases.greatest(name), self._databases.look(name))
        if self._isolation is Isolation.REPEATABLE_READ and not self._reads.beside:
            return self._greatest()
        return {
            name: log_end(self._databases.questions(name), self._databases.greatest(name))
            for name in self._databases.names
        }

    def _check_isolation(self) -> None:
        """Raise ConfigError where a database does not allow the isolation mode."""
        if self._isolation is Isolation.SNAPSHOT:
            for name in self._databases.names:
                self._databases.check_snapshots(name)

    def collections(self, _state: State) -> Sequence[CollectionId]:
        """The captured tables to read, database by database.

        A list may name them with or without the database. Raises ConfigError if the snapshotter has a SELECT
        for one that can't be read from.
        """
        self._check_isolation()
        signals = set(self._settings.source_as(SqlServerSettings).signal_tables)
        only = self._settings.snapshot.include_tables
        captures = [
            capture for name in self._databases.names for capture in self._databases.instances(name).captures
        ]
        found = [
            table
            for table in dict.fromkeys(capture.table for capture in captures)
            if table not in signals and is_included(only, table)
        ]
        names = to_read(dict.fromkeys(map(_short, found)), self._settings.capture, ())
        chosen = by_database(found, self._databases.names, names)
        for table in chosen:
            self._databases.statement(table)
        return chosen


def by_database(
    tables: Iterable[CollectionId], databases: Sequence[str], names: Sequence[CollectionId]
) -> list[CollectionId]:
    """The tables of these names, given without database, in that order within each database."""
    positions = {name: number for number, name in enumerate(names)}
    chosen = [table for table in tables if _short(table) in positions]
    return sorted(chosen, key=lambda table: (databases.index(table.database), positions[_short(table)]))


def _short(table: CollectionId) -> CollectionId:
    """A table's name without its database, as lists have it."""
    return CollectionId(table.parts[1:])
