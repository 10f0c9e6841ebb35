"""The initial snapshot on MongoDB: the change stream that a start opens, and the cluster time to read at.

The change stream begins at a cluster time, and collections are read as of just before it. So the two fit
together without a lock. By default the server keeps such a state for five minutes. What is left after that is
read in ordinary windows while the log is streamed. So are capped collections, which can't be read as of a
chosen time: their documents would contain changes that the log then repeats. `adapters/source/initial.py` has
the steps of a start; the windows decide how documents are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.mongodb.log.position import shown, time_of
from adapters.source.initial import FoundLog
from engine.config.sources.selection import is_included
from engine.errors import ConfigError, InvariantError, PositionLost
from engine.model import CollectionId, Position
from engine.saved import read_position, saved_position
from engine.snapshot.initial import to_read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adapters.mongodb.log.stream import ChangeStream
    from adapters.mongodb.server.questions import Questions
    from adapters.mongodb.snapshot.tables import MongoCollections
    from engine.config.settings import Settings
    from engine.job.saved.state import State

    OpenStream = Callable[[Position | None], ChangeStream]

TOO_OLD = "the server has dropped the state that was read"
KEEP_IT = (
    "raise minSnapshotHistoryWindowInSeconds, drop and rename no collection meanwhile,"
    " or take snapshot.mode=initial"
)


@dataclass(frozen=True, slots=True)
class HeldSnapshot:
    """The cluster time to read at, and the position where the log begins after it.

    No session holds it: the server drops the state of that time on its own. `capped` collections can't be
    read as of it.
    """

    at: tuple[int, int]
    position: Position
    collections: tuple[CollectionId, ...]
    capped: frozenset[CollectionId] = frozenset()

    @property
    def begins_at(self) -> list[int | str] | None:
        """The position, as the state has it."""
        return saved_position(self.position)

    def is_alive(self) -> bool:
        """Return true: windows notice when the server no longer has the state of that time."""
        return True

    def close(self) -> None:
        """Do nothing."""

    def __str__(self) -> str:
        return shown(self.position)


class StreamStart:
    """A start of a job that may stream. `stream` is open after it if the start had to open one.

    `statement` is the snapshotter's.
    """

    def __init__(
        self,
        settings: Settings,
        questions: Questions,
        collections: MongoCollections,
        open_stream: OpenStream | None,
        statement: Callable[[CollectionId], str | None],
    ) -> None:
        self._settings, self._questions, self._collections = settings, questions, collections
        self._open_stream, self._statement = open_stream, statement
        self.stream: ChangeStream | None = None

    def find_log(self, state: State) -> FoundLog:
        """Open the stream at the state's position, if there is one."""
        begins_at, lost = state.memory.get("first", {}).get("begins_at"), None
        if self._open_stream is not None and state.position is not None:
            try:
                self.stream = self._open_stream(state.position)
            except PositionLost as error:
                lost = error
        began = read_position(begins_at)
        streamed = began is None or state.position is None or state.position > began
        return FoundLog(state, begins_at, lost, streamed=streamed)

    def give_up(self) -> None:
        """Do nothing: the server keeps its log for nobody."""

    def first_position(self) -> Position:
        """The present end of the log, where the stream is opened."""
        if self._open_stream is None:
            raise InvariantError("a job that streams no log asked where to stream from")
        if self.stream is not None:
            self.stream.close()
        self.stream = self._open_stream(None)
        return self.stream.position

    def begin(self, state: State) -> HeldSnapshot:
        """Choose the cluster time just before a new stream; without a log, the present one."""
        if self._open_stream is None:
            at = self._questions.now()
            position = Position(("82{:08X}{:08X}".format(*at), "", 1))
        else:
            # The stream has every event at its own start time.
            position = self.first_position()
            at = _before(time_of(position))
        return HeldSnapshot(at, position, tuple(self.collections(state)), self._collections.capped())

    def collections(self, state: State) -> Sequence[CollectionId]:
        """The collections to read. A list may name them after the replica set, as in Debezium 2.1.4.

        Raises ConfigError if the snapshotter has a statement for one: MongoDB has no SELECT.
        """
        only, replica_set = self._settings.snapshot.include_tables, state.identity.get("replica_set", "")
        found = [
            collection
            for collection in self._collections.captured()
            if is_included(only, collection, replica_set)
        ]
        chosen = to_read(found, self._settings.capture, ())
        for collection in chosen:
            if self._statement(collection) is not None:
                raise ConfigError(
                    f"snapshotter {self._settings.snapshot.custom_name!r} has a statement for {collection},"
                    " and MongoDB can't read by a SELECT",
                    hint="return None, and name the collection in snapshot.collection.filter.overrides",
                )
        return chosen


def _before(time: tuple[int, int]) -> tuple[int, int]:
    seconds, ordinal = time
    return (seconds, ordinal - 1) if ordinal else (seconds - 1, 0xFFFFFFFF)
