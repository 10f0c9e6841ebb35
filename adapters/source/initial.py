"""The initial snapshot of one run of the job, on any database: what a start does, and when the log goes on.

Owns the steps that `engine.snapshot.initial` decides on, the view that the tables are read in while it is
held, and what a saved state keeps of it. `LogStart` is the database's own part: its log, its tables, and how
a view of them is opened where that log begins. The windows decide how rows are read.

    start ── is the view of this run still held, and the log kept? ── yes: continue in it
      ├─ is the log of before lost, and to be repaired? ── yes: begin a new one, from `first_position`
      │
      └─ find_log ─ decide ─┬─ STREAM            stream, from `first_position` if nothing is saved
                            ├─ BESIDE            the same, with all collections queued
                            ├─ AT_LOG, ALONE     `begin` a view, and queue everything that it shows
                            └─ END, LOST         nothing to do; stop

The view may be lost, by a kill for example. Where a log is streamed, ordinary windows then read what is left.
Without a log everything is read again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence  # noqa: TC003  a dataclass's field, shown by its repr
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, assert_never

from engine.config.settings import SnapshotRestart
from engine.config.sources.selection import listed_names
from engine.errors import PositionLost, SourceError
from engine.snapshot.changes.commands import begin_initial
from engine.snapshot.changes.restarts import restart_all
from engine.snapshot.initial import Log, Start, StartSituation, start

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from engine.config.settings import SnapshotSettings
    from engine.job.saved.state import State
    from engine.model import CollectionId, Position
    from engine.snapshot.initial import Snapshotter

_log = logging.getLogger("adapters")
_LABEL = "snapshot.mode"


class View(Protocol):
    """The tables as they were where a log begins. `str` says where that is."""

    @property
    def position(self) -> Position:
        """Where the log begins."""

    @property
    def begins_at(self) -> Any:
        """The same, as a saved state has it."""

    @property
    def collections(self) -> Sequence[CollectionId]:
        """The collections to read in it, in order."""

    def is_alive(self) -> bool:
        """Ask whether it is still held. A database that holds none has the other answers only."""

    def close(self) -> None:
        """Release what is held for it. Calling it twice is harmless."""


ViewT = TypeVar("ViewT", bound=View)
ViewT_co = TypeVar("ViewT_co", bound=View, covariant=True)


@dataclass(frozen=True, slots=True)
class FoundLog:
    """What the database has of the log after a saved state.

    `state` is at a position that this server has. `lost` says why the log can't continue. `kept` and
    `streamed` are explained in `StartSituation`. `begins_at` is where the log began, as the state has it.
    """

    state: State
    begins_at: Any = None
    lost: PositionLost | None = None
    kept: bool = False
    streamed: bool = True

    @property
    def log(self) -> Log:
        """What the source keeps of its log for the job."""
        return Log.LOST if self.lost else Log.KEPT if self.kept else Log.NONE


class LogStart(Protocol[ViewT_co]):
    """One start of the log, as a database carries it out. All methods raise SourceError and ConfigError."""

    def find_log(self, state: State) -> FoundLog:
        """Look for the log after the state. Changes nothing."""

    def first_position(self) -> Position:
        """Where to stream from without a saved position. Makes the database keep its log from there on."""

    def give_up(self) -> None:
        """Drop what the database keeps of an earlier log, if it keeps anything. May be called again."""

    def begin(self, state: State) -> ViewT_co:
        """Open a view of all that is to be read. If a log is streamed, begin a new one there."""

    def collections(self, state: State) -> Sequence[CollectionId]:
        """What is to be read, in order. Raises ConfigError if it can't be read as the settings say."""


class InitialSnapshot(Generic[ViewT]):
    """Only the job's thread uses it. `run` names this run of the job.

    `pause` waits some seconds and returns true when the job is to stop.
    """

    def __init__(
        self,
        settings: SnapshotSettings,
        snapshotter: Snapshotter,
        run: str,
        pause: Callable[[float], object],
    ) -> None:
        self._settings, self._snapshotter = settings, snapshotter
        self._run, self._pause = run, pause
        self.held: ViewT | None = None
        self.begins_at: Any = None

    @property
    def streams(self) -> bool:
        """Whether the log is streamed at all."""
        return self._snapshotter.should_stream()

    def statement(self, collection: CollectionId) -> str | None:
        """The SELECT that the snapshotter has for a collection's rows; None for all of them."""
        return self._snapshotter.statement(collection)

    @property
    def holds_log(self) -> bool:
        """Whether the log must wait."""
        return not self.streams or self.held is not None

    def tick(self, state: State, apart: Collection[CollectionId] = ()) -> None:
        """Release the view, and so the log, once everything has been read in it.

        `apart` are collections that the view can't show. They are read while the log is streamed.
        """
        if self.held is None or not self.streams:
            return
        left = {table.target.collection for table in state.snapshot.tables if table.initial}
        if left.issubset(apart):
            but = f" but for {len(left)} collections that are read beside the log" if left else ""
            _log.info("the initial snapshot is complete%s; the log is streamed from %s", but, self.held)
            self.release()

    def done(self, state: State) -> bool:
        """Whether a job that streams no log has read everything."""
        return not self.streams and state.position is not None and not state.snapshot.initial

    def memory(self) -> dict[str, Any]:
        """What must be saved: which run began the snapshot, and where the log began."""
        return {"run": self._run, "begins_at": self.begins_at}

    def lose(self, why: str, hint: str = "it begins again from nothing") -> None:
        """Give the view up: what is left is read in windows. Raises SourceError if no log makes up for it."""
        self.release()
        if not self.streams:
            raise SourceError(why, hint=hint)
        _log.warning("%s; the rest is read in windows", why)

    def release(self) -> None:
        """Release the view."""
        if self.held is not None:
            self.held.close()
            self.held = None

    # Starting.

    def start(self, state: State, log: LogStart[ViewT]) -> State:
        """The state to continue from: with a position, and with the collections queued that are to be read.

        Raises PositionLost if the log can't continue and no mode asks to start from scratch.
        """
        if state.awaits_log:
            return self._begin_recovery(state, log)
        continued = self._resume_view(state)
        if continued is not None and (not self.streams or _is_there(log, continued)):
            return continued
        self.release()
        found = log.find_log(state)
        self.begins_at, state = found.begins_at, found.state
        standing = self._standing(found)
        way = start(self._snapshotter, standing, redo=self._settings.restart is SnapshotRestart.REDO)
        match way:
            case Start.LOST:
                raise found.lost or PositionLost("the log is lost")
            case Start.END:
                _log.info("the initial snapshot has been taken, and no log is streamed: nothing to do")
                return self._with_note(state)
            case Start.STREAM:
                return self._stream(state, log)
            case Start.BESIDE:
                return self._begin_beside(state, log)
            case Start.AT_LOG | Start.ALONE:
                self._wait(state, log)
                _say_anew(way, standing)
                return self._begin_in_view(state, log.begin(state))
            case _:
                assert_never(way)

    def _resume_view(self, state: State) -> State | None:
        """The state in the view that is still held from before a fault, if there is one."""
        if self.held is None or not self.held.is_alive():
            return None
        if not self._has_begun(state) or state.position != self.held.position:
            # It was saved before the view was opened.
            return self._queue_view(state, self.held)
        return state if state.snapshot.initial else None

    def _has_begun(self, state: State) -> bool:
        """Whether this run has begun the state's initial snapshot."""
        return bool(state.memory.get("first", {}).get("run") == self._run)

    def _standing(self, found: FoundLog) -> StartSituation:
        state = found.state
        return StartSituation(
            saved=state.position is not None,
            log=found.log,
            left=state.snapshot.initial,
            streamed=state.position is None or found.streamed,
            begun=self._has_begun(state),
        )

    def _wait(self, state: State, log: LogStart[ViewT]) -> None:
        """Wait for `snapshot.delay.ms`. What can't be read is told before."""
        delay_s = self._settings.delay_ms / 1000
        if delay_s:
            log.collections(state)
            if self._pause(delay_s):
                raise SourceError("stopped before the initial snapshot began")

    def _begin_recovery(self, state: State, log: LogStart[ViewT]) -> State:
        """The state where a new log begins in place of a lost one. The windows of repairs read the tables."""
        self.release()
        self.begins_at = None
        log.give_up()
        return self._with_note(replace(state, position=log.first_position()))

    def _stream(self, state: State, log: LogStart[ViewT]) -> State:
        if state.snapshot.initial:
            _log.info("what is left of the initial snapshot is read in windows")
        return self._with_note(replace(state, position=state.position or log.first_position()))

    def _begin_beside(self, state: State, log: LogStart[ViewT]) -> State:
        self._wait(state, log)
        position, collections = state.position or log.first_position(), log.collections(state)
        _log.info("an initial snapshot of %d collections is taken beside the log", len(collections))
        return self._with_note(self._begin(replace(state, position=position), collections))

    def _begin_in_view(self, state: State, view: ViewT) -> State:
        self.begins_at = view.begins_at
        self.held = view if view.is_alive() else None
        return self._queue_view(state, view)

    def _queue_view(self, state: State, view: ViewT) -> State:
        """Queue everything that the view shows. Nothing known of an earlier log applies any more."""
        _log.info("an initial snapshot of %d collections is taken at %s", len(view.collections), view)
        snapshot = restart_all(state.snapshot)
        anew = replace(state, position=view.position, snapshot=snapshot, memory={}, attempt=None)
        return self._with_note(self._begin(anew, view.collections))

    def _begin(self, state: State, collections: Sequence[CollectionId]) -> State:
        _warn_of_unread(self._settings, collections)
        given = self._settings.filters
        filters = {
            collection: given[str(collection)] for collection in collections if str(collection) in given
        }
        return replace(state, snapshot=begin_initial(state.snapshot, collections, _LABEL, filters))

    def _with_note(self, state: State) -> State:
        return replace(state, memory={**state.memory, "first": self.memory()})


def _is_there(log: LogStart[Any], state: State) -> bool:
    """Whether a view's log is still there: whoever ended its session may have dropped the slot."""
    return log.find_log(state).lost is None


def _warn_of_unread(settings: SnapshotSettings, collections: Sequence[CollectionId]) -> None:
    """Warn about a SELECT or a filter that applies to nothing: its name may be misspelt."""
    names = {name for collection in collections for name in listed_names(collection)}
    for given in (*settings.select_overrides, *settings.filters):
        if given not in names:
            _log.warning(
                "a SELECT or a filter is given for %r, but the initial snapshot reads nothing of that name",
                given,
            )


def _say_anew(way: Start, standing: StartSituation) -> None:
    """Say what becomes of an earlier snapshot."""
    if standing.log is Log.LOST:
        _log.warning("the log is lost; a new one begins: rows deleted meanwhile are not reported")
    elif standing.left and way is Start.ALONE:
        _log.warning("the initial snapshot starts over: no log has the changes made meanwhile")
    elif standing.left:
        _log.warning("the initial snapshot starts over; events of the previous one stay in the sink")
