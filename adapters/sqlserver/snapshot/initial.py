"""The snapshot before the log, on SQL Server: how a start goes about it, and what is held for it.

What `snapshot.isolation.mode` asks for:

    exclusive         tables stay locked until all are read; rows are those of the place where the log begins
    repeatable_read   locked while shapes and the place are noted; rows are read behind their writers' locks
    snapshot          no locks; each query reads the versions of its own beginning
    read_committed    no locks; rows are read as the database's settings have it
    read_uncommitted  no locks; rows that are never committed may come

Where locks are not held to the end, windows beside the stream keep rows and changes in order, if each
database has a signal table to mark them by. Without one the log waits until the rows are read: then it may
tell once more of changes that rows have shown. What a mode asks for is `engine/snapshot/initial.py`'s to say.
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
    """The initial snapshot of one run of the job; used by the job's thread alone.

    `pause` waits some seconds, and is true when the job is to stop.
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

    # What others ask.

    @property
    def streams(self) -> bool:
        """Whether the log is streamed at all."""
        return self._snapshotter.should_stream()

    @property
    def isolation(self) -> Isolation:
        """What the settings ask for."""
        return self._settings.sqlserver.isolation

    def place(self, database: str) -> Place | None:
        """Where the log of a database begins behind it."""
        return self._begins_at.get(database)

    @property
    def session(self) -> tuple[str, ...]:
        """The statements that the sessions begin with which read its rows."""
        return (_SNAPSHOT_SESSION,) if self.isolation is Isolation.SNAPSHOT else ()

    @property
    def hint(self) -> str:
        """How the rows of tables are locked when they are read."""
        # Our own locks would keep other sessions of ours out; and nobody can write.
        return "NOLOCK" if self._locks is not None else _HINTS[self.isolation]

    @property
    def beside(self) -> bool:
        """Whether windows can be read beside the stream: where there is something to mark them by."""
        named = self._databases.names
        return self.streams and all(self._databases.refusal(name) is None for name in named)

    @property
    def waits(self) -> bool:
        """Whether the log waits until everything is read."""
        return self._locks is not None or not self.beside

    def holds(self, state: State) -> bool:
        """Whether the log must wait; lets go of the locks when everything has been read."""
        if not self.streams:
            return True
        if not state.snapshot.initial and self._locks is not None:
            _log.info("the initial snapshot is complete; the log is streamed from %s", state.position)
            self.release()
        return state.snapshot.initial and self.waits

    def check(self) -> None:
        """Raise SourceError where locks were lost: open windows' rows may show what came meanwhile.

        The start that follows reads what is left like any other rows, or, without a log, all of it anew.
        """
        if self._locks is not None and not self._locks.alive:
            self.release()
            raise SourceError(_LOST, hint=_WHAT_NOW)

    def alive(self) -> Callable[[], bool]:
        """Tells of the locks that are held now, if any are, whether they are still held."""
        locks = self._locks
        return lambda: locks is None or (locks is self._locks and locks.alive)

    def done(self, state: State) -> bool:
        """Whether a job that streams no log has read everything."""
        return not self.streams and state.position is not None and not state.snapshot.initial

    def memory(self) -> dict[str, Any]:
        """What must be saved: which run began, and where the log did."""
        return {"run": self._run, "begins_at": {name: str(one) for name, one in self._begins_at.items()}}

    def release(self) -> None:
        """Let go of the locks."""
        if self._locks is not None:
            self._locks.release()
            self._locks = None

    # Starting.

    def start(self, state: State) -> State:
        """The state to go on from: with a position, and with the tables queued that are to be read.

        Raises PositionLost where the log can't go on and no mode asks to begin anew.
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
        """Everything queued, at a log's beginning: nothing that is known of an earlier one holds."""
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
        """Where the log begins; the locks that pin it down are held on to where that is asked for."""
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
            # Nobody changes a table's shape meanwhile.
            self._databases.note(name, self._databases.greatest(name), self._databases.look(name))
        if self.isolation is Isolation.REPEATABLE_READ and not self.beside:
            return self._greatest()
        places = [
            log_end(self._databases.connection(name), name, self._databases.greatest(name))
            for name in self._databases.names
        ]
        return position_of(places)

    def _noted(self, state: State) -> State:
        return replace(state, memory={**state.memory, "first": self.memory()})

    def _check_isolation(self) -> None:
        """Raise ConfigError where a database does not allow what the mode asks for."""
        if self.isolation is Isolation.SNAPSHOT:
            for name in self._databases.names:
                self._databases.check_snapshots(name)

    def _wait_before(self) -> None:
        self._check_isolation()
        delay_s = self._settings.snapshot.delay_ms / 1000
        if delay_s and self._pause(delay_s):
            raise SourceError("stopped before the initial snapshot began")

    def _tables(self) -> Sequence[CollectionId]:
        """The captured tables to read, database by database; a list may name them with it or without."""
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
    """The tables of these names, without their database, in that order within each database."""
    places = {name: place for place, name in enumerate(names)}
    chosen = [one for one in tables if _short(one) in places]
    return sorted(chosen, key=lambda one: (databases.index(one.database), places[_short(one)]))


def began_at(memory: Mapping[str, Any]) -> dict[str, Place]:
    """Where the log of each database began; older states have the places alone, in the names' order."""
    saved = memory.get("first", {}).get("begins_at") or {}
    if isinstance(saved, list):
        return dict(zip(memory.get("names", ()), places_of(Position(tuple(saved))), strict=False))
    return {name: parse_place(text) for name, text in saved.items()}


def _short(table: CollectionId) -> CollectionId:
    """A table's name without its database, as lists have it."""
    return CollectionId(table.parts[1:])
