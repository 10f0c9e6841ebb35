"""The initial snapshot on MongoDB: how a start proceeds, and the cluster time to read at.

The change stream begins at a cluster time, and collections are read as of just before it. So the two fit
together without a lock. By default the server keeps such a state for five minutes. What is left after that is
read in ordinary windows while the log is streamed. So are capped collections, which can't be read as of a
chosen time: their documents would contain changes that the log then repeats. `engine/snapshot/initial.py`
decides what each mode requires; the windows decide how documents are read.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, assert_never
from uuid import uuid4

from adapters.mongodb.log.position import shown, time_of
from engine.config.settings import SnapshotRestart
from engine.errors import PositionLost, SourceError
from engine.expressions import matches
from engine.model import CollectionId, Position
from engine.snapshot.initial import Log, Standing, Start, start, to_read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adapters.mongodb.log.stream import ChangeStream
    from adapters.mongodb.server.questions import Questions
    from adapters.mongodb.snapshot.tables import MongoCollections
    from engine.config.settings import Settings
    from engine.job.state import State
    from engine.snapshot.initial import Snapshotter

    OpenStream = Callable[[Position | None], ChangeStream]

_log = logging.getLogger("adapters")
_LABEL = "snapshot.mode"


@dataclass(frozen=True, slots=True)
class Held:
    """The cluster time to read at, and the position where the log begins after it."""

    at: tuple[int, int]
    position: Position


class InitialSnapshot:
    """The initial snapshot of one run of the job. Used by the job's thread alone.

    `pause` waits for some seconds, and returns true if the job is to stop.
    """

    def __init__(
        self,
        settings: Settings,
        questions: Questions,
        snapshotter: Snapshotter,
        pause: Callable[[float], object],
    ) -> None:
        self._settings, self._questions = settings, questions
        self._snapshotter, self._pause = snapshotter, pause
        self._run = uuid4().hex
        self._begins_at: list[Any] | None = None
        self._held: Held | None = None
        self._capped = frozenset[CollectionId]()

    # Queries about the snapshot.

    @property
    def streams(self) -> bool:
        """Whether the log is streamed at all."""
        return self._snapshotter.should_stream()

    @property
    def held(self) -> Held | None:
        """The time to read at; None once the rest is read in windows."""
        return self._held

    @property
    def beginning(self) -> tuple[int, int] | None:
        """The cluster time before a log that waits; None if no log waits."""
        return self._held.at if self._held and self.streams else None

    @property
    def holds_log(self) -> bool:
        """Whether the log must wait: until everything that can be read as of its beginning has been."""
        return not self.streams or self._held is not None

    def tick(self, state: State) -> None:
        """Let the log go on once everything has been read that it waits for."""
        if self._held is None or not self.streams:
            return
        left = {table.target.collection for table in state.snapshot.tables if table.initial}
        if left <= self._capped:
            said = "is complete but for capped collections" if left else "is complete"
            _log.info("the initial snapshot %s; streaming from %s", said, shown(self._held.position))
            self._held = None

    def done(self, state: State) -> bool:
        """Whether a job that streams no log has read everything."""
        return not self.streams and state.position is not None and not state.snapshot.initial

    def memory(self) -> dict[str, Any]:
        """What must be saved: which run began the snapshot, and where the log began."""
        return {"run": self._run, "begins_at": self._begins_at}

    def gone(self) -> None:
        """The server no longer has the state being read: continue in windows, beside the log."""
        if not self.streams:
            raise SourceError(
                "the server no longer has the state that is read, and no log makes up for it",
                hint="raise minSnapshotHistoryWindowInSeconds, drop and rename no collection meanwhile,"
                " or take snapshot.mode=initial",
            )
        if self._held is not None:
            _log.warning("the server has dropped the state that was read; the rest is read in windows")
            self._held = None

    # Starting.

    def start(
        self, state: State, extents: MongoCollections, open_stream: OpenStream
    ) -> tuple[State, ChangeStream | None]:
        """The state to continue from, and the stream; None if no log is read.

        Raises PositionLost if the log can't be continued and the mode does not allow starting over.
        """
        self._begins_at = state.memory.get("first", {}).get("begins_at")
        stream, lost = self._opened(state, open_stream)
        standing = self._standing(state, lost)
        redo = self._settings.snapshot.restart is SnapshotRestart.REDO
        match start(self._snapshotter, standing, redo=redo):
            case Start.LOST:
                raise lost or PositionLost("the log is lost")
            case Start.END:
                _log.info("the initial snapshot has been taken, and no log is streamed: nothing to do")
                return self._noted(state), None
            case Start.STREAM:
                return self._stream(state, stream or open_stream(None))
            case Start.BESIDE:
                return self._beside(state, extents, stream or open_stream(None))
            case Start.AT_LOG:
                return self._at_log(state, extents, open_stream, standing)
            case Start.ALONE:
                return self._alone(state, extents), None
            case way:
                assert_never(way)

    def _opened(
        self, state: State, open_stream: OpenStream
    ) -> tuple[ChangeStream | None, PositionLost | None]:
        if not self.streams or state.position is None:
            return None, None
        try:
            return open_stream(state.position), None
        except PositionLost as error:
            return None, error

    def _standing(self, state: State, lost: PositionLost | None) -> Standing:
        memory, position = state.memory.get("first", {}), state.position
        begins_at = Position(tuple(self._begins_at)) if self._begins_at else None
        return Standing(
            saved=position is not None,
            log=Log.LOST if lost else Log.NONE,
            left=state.snapshot.initial,
            streamed=position is None or begins_at is None or position > begins_at,
            begun=memory.get("run") == self._run,
        )

    def _stream(self, state: State, stream: ChangeStream) -> tuple[State, ChangeStream]:
        if self._held is not None and self._held.position != state.position:
            self._held = None
        if state.snapshot.initial and self._held is None:
            _log.info("what is left of the initial snapshot is read in windows while the log is streamed")
        return self._noted(replace(state, position=state.position or stream.position)), stream

    def _beside(
        self, state: State, extents: MongoCollections, stream: ChangeStream
    ) -> tuple[State, ChangeStream]:
        self._wait_before()
        position = state.position or stream.position
        collections = self._collections(state, extents)
        _log.info(
            "an initial snapshot of %d collections is taken while the log is streamed from %s",
            len(collections),
            shown(position),
        )
        snapshot = state.snapshot.begin(collections, _LABEL, self._filters(collections))
        return self._noted(replace(state, position=position, snapshot=snapshot)), stream

    def _at_log(
        self, state: State, extents: MongoCollections, open_stream: OpenStream, standing: Standing
    ) -> tuple[State, ChangeStream]:
        self._wait_before()
        if standing.log is Log.LOST:
            _log.warning("the log is lost; it begins anew: of documents deleted meanwhile nothing is told")
        elif standing.left:
            _log.warning(
                "the initial snapshot begins anew; what was sent of the one before stays in the sink"
            )
        stream = open_stream(None)
        # The stream has every event at its own start time.
        self._held = Held(_before(time_of(stream.position)), stream.position)
        self._begins_at = list(stream.position.order)
        return self._queued(state, extents, self._held), stream

    def _alone(self, state: State, extents: MongoCollections) -> State:
        self._wait_before()
        if state.snapshot.initial:
            _log.warning("the initial snapshot begins again from nothing: no log could tell what has changed")
        seconds, ordinal = self._questions.now()
        position = Position((f"82{seconds:08X}{ordinal:08X}", "", 1))
        self._held = Held((seconds, ordinal), position)
        return self._queued(state, extents, self._held)

    def _queued(self, state: State, extents: MongoCollections, held: Held) -> State:
        """Queue everything, from a new beginning of the log. Nothing known of an earlier log applies."""
        collections = self._collections(state, extents)
        self._capped = extents.capped()
        _log.info(
            "an initial snapshot of %d collections is taken at %s", len(collections), shown(held.position)
        )
        snapshot = state.snapshot.begin(collections, _LABEL, self._filters(collections))
        return self._noted(replace(state, position=held.position, snapshot=snapshot, memory={}))

    def _filters(self, collections: Sequence[CollectionId]) -> dict[CollectionId, str]:
        given = self._settings.snapshot.filters
        return {one: given[str(one)] for one in collections if str(one) in given}

    def _noted(self, state: State) -> State:
        return replace(state, memory={**state.memory, "first": self.memory()})

    def _wait_before(self) -> None:
        delay_s = self._settings.snapshot.delay_ms / 1000
        if delay_s and self._pause(delay_s):
            raise SourceError("stopped before the initial snapshot began")

    def _collections(self, state: State, extents: MongoCollections) -> Sequence[CollectionId]:
        """The collections to read. A list may name them after the replica set, as in Debezium 2.1.4."""
        only, replica_set = self._settings.snapshot.include_tables, state.identity.get("replica_set", "")
        found = [
            one
            for one in extents.captured()
            if not only or matches(only, str(one)) or matches(only, f"{replica_set}.{one}")
        ]
        return to_read(found, self._settings.capture, ())


def _before(time: tuple[int, int]) -> tuple[int, int]:
    seconds, ordinal = time
    return (seconds, ordinal - 1) if ordinal else (seconds - 1, 0xFFFFFFFF)
