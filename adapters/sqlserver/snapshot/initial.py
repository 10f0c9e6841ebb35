"""The initial snapshot on SQL Server: how a start proceeds, and which locks are held.

What `snapshot.isolation.mode` means:

    exclusive         tables stay locked until all are read; rows are as of the place where the log begins
    repeatable_read   locked while shapes and the place are read; rows are read under READCOMMITTEDLOCK
    snapshot          no locks; each query reads row versions as of its start
    read_committed    no locks; rows are read as the database's settings say
    read_uncommitted  no locks; uncommitted rows may be read

If locks are not held to the end, windows beside the stream keep rows and changes in order, provided that each
database has a signal table for watermarks. Without one the log waits until all rows are read; it may then
repeat changes that rows already contain. `engine/snapshot/initial.py` decides what each mode requires.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, assert_never
from uuid import uuid4

from adapters.sqlserver.log.capture_instances import check_reach, marks_of
from adapters.sqlserver.server.position import parse_place, places_of, position_of
from adapters.sqlserver.snapshot.eligibility import LOCKED
from adapters.sqlserver.snapshot.locks import Locks, log_end
from engine.config.settings import SnapshotRestart
from engine.config.sources import Isolation
from engine.errors import PositionLost, SourceError
from engine.expressions import matches
from engine.model import CollectionId, Position
from engine.snapshot.initial import Log, Standing, Start, start, to_read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from adapters.sqlserver.databases import Databases
    from adapters.sqlserver.server.connection import Server
    from adapters.sqlserver.server.position import Place
    from engine.config.settings import Settings
    from engine.job.state import State
    from engine.snapshot.initial import Snapshotter

_log = logging.getLogger("adapters")
_LABEL = "snapshot.mode"
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


class InitialSnapshot:
    """The initial snapshot of one run of the job. Used by the job's thread alone.

    `pause` waits for some seconds, and returns true if the job is to stop.
    """

    def __init__(
        self,
        settings: Settings,
        server: Server,
        databases: Databases,
        snapshotter: Snapshotter,
        pause: Callable[[float], object],
    ) -> None:
        self._settings, self._server, self._databases = settings, server, databases
        self._snapshotter, self._pause = snapshotter, pause
        self._run = uuid4().hex
        self._begins_at: dict[str, Place] = {}
        self._locks: Locks | None = None
        databases.initial_hint = lambda: self.hint

    # Queries about the snapshot.

    @property
    def streams(self) -> bool:
        """Whether the log is streamed at all."""
        return self._snapshotter.should_stream()

    @property
    def isolation(self) -> Isolation:
        """The isolation mode of the settings."""
        return self._settings.sqlserver.isolation

    def place(self, database: str) -> Place | None:
        """The place where a database's log begins after the snapshot."""
        return self._begins_at.get(database)

    @property
    def session(self) -> tuple[str, ...]:
        """The statements that start the sessions which read its rows."""
        return (_SNAPSHOT_SESSION,) if self.isolation is Isolation.SNAPSHOT else ()

    @property
    def hint(self) -> str:
        """The lock hint for reading rows."""
        # Our own locks would block our other sessions, and nobody can write meanwhile.
        return "NOLOCK" if self._locks is not None else _HINTS[self.isolation]

    @property
    def beside(self) -> bool:
        """Whether windows can be read beside the stream: every database needs a way to mark them."""
        named = self._databases.names
        return self.streams and all(self._databases.refusal(name) is None for name in named)

    @property
    def waits(self) -> bool:
        """Whether the log waits until everything is read."""
        return self._locks is not None or not self.beside

    def holds(self, state: State) -> bool:
        """Whether the log must wait."""
        return not self.streams or (state.snapshot.initial and self.waits)

    def tick(self, state: State) -> None:
        """Release the locks once everything has been read.

        Raises SourceError if they were lost: rows of open windows may contain later changes. The next start
        reads the rest like any other rows; without a log, it reads everything from scratch.
        """
        if self._locks is None:
            return
        if not self._locks.alive:
            self.release()
            raise SourceError(_LOST, hint=_WHAT_NOW)
        if self.streams and not state.snapshot.initial:
            _log.info("the initial snapshot is complete; the log is streamed from %s", state.position)
            self.release()

    def alive(self) -> Callable[[], bool]:
        """A function that tells whether the locks held now are still held; true if there are none."""
        locks = self._locks
        return lambda: locks is None or (locks is self._locks and locks.alive)

    def done(self, state: State) -> bool:
        """Whether a job that streams no log has read everything."""
        return not self.streams and state.position is not None and not state.snapshot.initial

    def memory(self) -> dict[str, Any]:
        """What must be saved: which run began the snapshot, and where the log began."""
        return {"run": self._run, "begins_at": {name: str(one) for name, one in self._begins_at.items()}}

    def release(self) -> None:
        """Release the locks."""
        if self._locks is not None:
            self._locks.release()
            self._locks = None

    # Starting.

    def start(self, state: State) -> State:
        """The state to continue from: with a position, and with the tables to read queued.

        Raises PositionLost where the log can't be continued and the mode does not allow starting over.
        """
        if self._continues(state):
            return state
        self.release()
        self._begins_at = began_at(state.memory)
        lost = self._lost(state)
        standing = self._standing(state, lost)
        redo = self._settings.snapshot.restart is SnapshotRestart.REDO
        match start(self._snapshotter, standing, redo=redo):
            case Start.LOST:
                raise lost or PositionLost("the log is lost")
            case Start.END:
                _log.info("the initial snapshot has been taken, and no log is streamed: nothing to do")
                return self._noted(state)
            case Start.STREAM:
                return self._stream(state)
            case Start.BESIDE:
                return self._beside(state)
            case Start.AT_LOG:
                return self._anew(state, standing)
            case Start.ALONE:
                return self._anew(state, standing)
            case way:
                assert_never(way)

    def _continues(self, state: State) -> bool:
        """Whether the locks are still held for a state from before a fault."""
        mine = state.memory.get("first", {}).get("run") == self._run
        return self._locks is not None and self._locks.alive and mine and state.snapshot.initial

    def _lost(self, state: State) -> PositionLost | None:
        if not self.streams or state.position is None:
            return None
        saved = state.memory.get("databases", {})
        try:
            for name, place in zip(self._databases.names, places_of(state.position), strict=True):
                known = marks_of(saved.get(name, {}).get("instances", ()))
                check_reach(known, self._databases.instances(name).captures, place)
        except PositionLost as error:
            return error
        return None

    def _standing(self, state: State, lost: PositionLost | None) -> Standing:
        memory, position = state.memory.get("first", {}), state.position
        return Standing(
            saved=position is not None,
            log=Log.LOST if lost else Log.NONE,
            left=state.snapshot.initial,
            streamed=position is None or self._streamed(position),
            begun=memory.get("run") == self._run,
        )

    def _streamed(self, position: Position) -> bool:
        """Whether the log of any database has been streamed since it began."""
        places = dict(zip(self._databases.names, places_of(position), strict=True))
        began = [(places[name], place) for name, place in self._begins_at.items() if name in places]
        return not began or any(now > then for now, then in began)

    def _stream(self, state: State) -> State:
        if state.snapshot.initial:
            self._check_isolation()
            how = "while the log is streamed" if self.beside else "before the log is streamed"
            _log.info("what is left of the initial snapshot is read %s", how)
        return self._noted(replace(state, position=state.position or self._greatest()))

    def _greatest(self) -> Position:
        return position_of([self._databases.greatest(name) for name in self._databases.names])

    def _beside(self, state: State) -> State:
        self._wait_before()
        tables = self._tables()
        _log.info("an initial snapshot of %d tables is taken while the log is streamed", len(tables))
        snapshot = state.snapshot.begin(tables, _LABEL)
        return self._noted(replace(state, position=state.position or self._greatest(), snapshot=snapshot))

    def _anew(self, state: State, standing: Standing) -> State:
        """Queue everything, from a new beginning of the log. Nothing known of an earlier log applies."""
        self._wait_before()
        self._say(standing)
        tables = self._tables()
        position = self._position(tables)
        self._begins_at = dict(zip(self._databases.names, places_of(position), strict=True))
        _log.info("an initial snapshot of %d tables is taken (%s)", len(tables), self.isolation)
        snapshot = state.snapshot.anew().begin(tables, _LABEL)
        return self._noted(replace(state, position=position, snapshot=snapshot, memory={}))

    def _say(self, standing: Standing) -> None:
        if standing.log is Log.LOST:
            _log.warning("the log is lost; it begins anew: of rows deleted meanwhile nothing is told")
        elif standing.left:
            _log.warning(
                "the initial snapshot begins anew; what was sent of the one before stays in the sink"
            )
        if self.isolation in _GIVEN_UP:
            _log.warning("snapshot.isolation.mode=%s: %s", self.isolation, _GIVEN_UP[self.isolation])
        if self.isolation is Isolation.EXCLUSIVE or self.beside:
            return
        _log.warning(
            "snapshot.isolation.mode=%s, and no signal table to mark windows by: rows are read at several"
            " moments%s; name signal tables, or take snapshot.isolation.mode=exclusive",
            self.isolation,
            ", and the log may tell once more of changes that they show" if self.streams else "",
        )

    def _position(self, tables: Sequence[CollectionId]) -> Position:
        """Where the log begins. Keeps the locks that fix this place if the mode requires it."""
        if self.isolation not in {Isolation.EXCLUSIVE, Isolation.REPEATABLE_READ}:
            return self._greatest()
        self._locks = Locks(self._server, tables, self._settings.snapshot.lock_timeout_ms)
        try:
            return self._locked_position()
        finally:
            if self.isolation is Isolation.REPEATABLE_READ:
                self.release()

    def _locked_position(self) -> Position:
        for name in self._databases.names:
            # Nobody can change a table's shape meanwhile.
            self._databases.note(name, self._databases.greatest(name), self._databases.look(name))
        if self.isolation is Isolation.REPEATABLE_READ and not self.beside:
            return self._greatest()
        places = [
            log_end(self._databases.questions(name), self._databases.greatest(name))
            for name in self._databases.names
        ]
        return position_of(places)

    def _noted(self, state: State) -> State:
        return replace(state, memory={**state.memory, "first": self.memory()})

    def _check_isolation(self) -> None:
        """Raise ConfigError where a database does not allow the isolation mode."""
        if self.isolation is Isolation.SNAPSHOT:
            for name in self._databases.names:
                self._databases.check_snapshots(name)

    def _wait_before(self) -> None:
        self._check_isolation()
        delay_s = self._settings.snapshot.delay_ms / 1000
        if delay_s and self._pause(delay_s):
            raise SourceError("stopped before the initial snapshot began")

    def _tables(self) -> Sequence[CollectionId]:
        """The captured tables to read, database by database.

        A list may name them with or without the database.
        """
        signals, only = set(self._settings.sqlserver.signal_tables), self._settings.snapshot.include_tables
        captured = [one for name in self._databases.names for one in self._databases.instances(name).captures]
        found = [
            one
            for one in dict.fromkeys(capture.table for capture in captured)
            if one not in signals and (not only or matches(only, str(one)) or matches(only, str(_short(one))))
        ]
        names = to_read(dict.fromkeys(map(_short, found)), self._settings.capture, ())
        return by_database(found, self._databases.names, names)


def by_database(
    tables: Iterable[CollectionId], databases: Sequence[str], names: Sequence[CollectionId]
) -> list[CollectionId]:
    """The tables of these names, given without database, in that order within each database."""
    places = {name: place for place, name in enumerate(names)}
    chosen = [one for one in tables if _short(one) in places]
    return sorted(chosen, key=lambda one: (databases.index(one.database), places[_short(one)]))


def began_at(memory: Mapping[str, Any]) -> dict[str, Place]:
    """Where the log of each database began.

    States of earlier versions have just the places, in the order of names.
    """
    saved = memory.get("first", {}).get("begins_at") or {}
    if isinstance(saved, list):
        return dict(zip(memory.get("names", ()), places_of(Position(tuple(saved))), strict=False))
    return {name: parse_place(text) for name, text in saved.items()}


def _short(table: CollectionId) -> CollectionId:
    """A table's name without its database, as lists have it."""
    return CollectionId(table.parts[1:])
