"""One MongoDB deployment as the engine's `Source`: its change stream, its collections, its windows.

`log_opening.py` opens the stream, and `streamed_spans.py` makes events of what it brings.
`snapshot/windows.py` opens windows. `stream_state.py` has what is known of the stream across turns.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from adapters.mongodb.log.reader import Span
from engine.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from adapters.mongodb.events.rows import ReadEvents
    from adapters.mongodb.log.reader import MongoLog
    from adapters.mongodb.log_opening import LogOpening
    from adapters.mongodb.log_session import LogSession
    from adapters.mongodb.saved import Memory
    from adapters.mongodb.server.questions import Questions
    from adapters.mongodb.snapshot.initial import HeldSnapshot
    from adapters.mongodb.snapshot.opening_window import MongoOpening
    from adapters.mongodb.snapshot.tables import MongoCollections
    from adapters.mongodb.snapshot.window import MongoWindow
    from adapters.mongodb.streamed_spans import StreamedSpans
    from adapters.source.initial import InitialSnapshot
    from adapters.source.log.no_log import NoLog
    from engine.isolation.incomplete import Incomplete
    from engine.job.saved.state import State
    from engine.model import Arrival, CollectionId, Window
    from engine.ports.log import Span as TakenSpan
    from engine.ports.sink import PartWriter
    from engine.ports.source import EncodingResult, Moved, Reading
    from engine.verify.deletes import DeleteEvents


class MongoSource:
    """The engine's `Source`. Used by the job's thread alone.

    Documents in the collection `signals` are not reported.
    """

    lasting = ()

    def __init__(
        self,
        questions: Questions,
        first: InitialSnapshot[HeldSnapshot],
        opening: LogOpening,
        spans: StreamedSpans,
        signals: CollectionId | None = None,
    ) -> None:
        self._questions, self._first, self._signals = questions, first, signals
        self._opening, self._spans, self._windows = opening, spans, opening.windows

    # The log.

    def open_log(self, state: State) -> tuple[State, MongoLog | NoLog]:
        """Check the deployment against the state, and open the change stream at its position or its end."""
        return self._opening.open(state)

    def _opened(self) -> LogSession:
        if self._opening.session is None:
            raise InvariantError("the source was used before its log was opened")
        return self._opening.session

    def figures(self) -> dict[str, float]:
        """Metrics that Debezium's connector has for MongoDB alone, by its names in snake case."""
        polls = self._opening.polls
        return {
            "number_of_primary_elections": self._questions.elections,
            "last_source_event_poll_time": polls.last_with_events_ms,
            "last_empty_poll_time": polls.last_empty_ms,
            "number_of_empty_polls": polls.empty,
        }

    def close(self) -> None:
        """Close the connections."""
        self._questions.close()

    def memory(self) -> Memory:
        """The open transaction, the beginning of the initial snapshot, and the last event."""
        return self._opening.memory()

    def tick(self, state: State) -> Sequence[Incomplete]:
        """Let the log go on once the snapshot that it waits for is read."""
        held, session = self._first.held, self._opening.session
        self._first.tick(state, apart={*held.capped, *session.tables.apart} if held and session else ())
        self._windows.blocking.tick(state)
        if self._first.streams and session is not None:
            session.arrivals.look(state.position)
        return ()

    def take_appeared(self) -> Sequence[Arrival]:
        """Take the collections that are captured only since the last call, or since the state was saved."""
        if self._opening.session is None or not self._first.streams:
            return ()
        return [
            found
            for found in self._opening.session.arrivals.take_appeared()
            if found.collection != self._signals
        ]

    def holds_log(self, state: State) -> bool:
        """Whether the log must wait until a snapshot has been read as of where it waits."""
        return self._first.holds_log or self._windows.blocking.waits(state.position)

    def done(self, state: State) -> bool:
        """Whether a job that streams no log has finished."""
        return self._first.done(state)

    def hidden_moves(self, _reading: Reading) -> Moved:
        """None: documents keep their `_id`."""
        return {}

    def tables(self) -> MongoCollections:
        """The collections that a signal can name."""
        return self._opened().tables

    # Spans and windows.

    def encode(
        self,
        span: TakenSpan,
        writer: PartWriter,
        aside: Collection[CollectionId] = (),
        reading: Reading = MappingProxyType({}),  # noqa: ARG002  documents keep their `_id`
    ) -> EncodingResult:
        """Encode a span into the writer, and return what it supersedes."""
        if not isinstance(span, Span):
            raise InvariantError(f"a span of another source: {span!r}")
        return self._spans.encode(span, writer, aside, self._opened())

    def open_window(self, window: Window) -> MongoWindow | MongoOpening:
        """Choose a cluster time, and start the tasks that read the window's runs as of it; or begin to."""
        streamed = self._opening.streamed
        return self._windows.open(window, self._opened(), lambda: streamed.to)

    # What the wiring asks for besides.

    def replica_set(self) -> str:
        """The replica set's name."""
        return self._opened().rules.replica_set

    def deletes(self, collection: CollectionId) -> DeleteEvents:
        """How delete events of documents are written that only a copy has."""
        return self._windows.deletes(collection, self._opened(), self._opening.streamed.to)

    def document_reads(self, collection: CollectionId) -> ReadEvents:
        """How documents of a collection are read from another one. Raises SourceError."""
        return self._windows.elsewhere(collection, self._opened(), self._opening.streamed.to)
