"""The engine's `Source` for one MongoDB deployment: how its change stream is opened, and its spans' events.

Owns what must survive from turn to turn: the open transaction whose events are counted, and how far the
stream has come. `snapshot/windows.py` opens windows.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from adapters.mongodb.documents.selection import FieldRules
from adapters.mongodb.events import untold
from adapters.mongodb.events.codec import Rules
from adapters.mongodb.events.dead_letters import letters_of
from adapters.mongodb.events.span_encoder import DecodePart, encode_span
from adapters.mongodb.log.arrivals import Arrivals
from adapters.mongodb.log.options import StreamOptions
from adapters.mongodb.log.position import event_position, shown, time_of
from adapters.mongodb.log.reader import LogBounds, Polls, Span
from adapters.mongodb.log.same_log import check_same_log
from adapters.mongodb.log.stream import ChangeStream
from adapters.mongodb.saved import saved_of
from adapters.mongodb.server.connection import check_capture, check_identity, check_splitting
from adapters.mongodb.settings import MongoSettings
from adapters.mongodb.snapshot.initial import StreamStart
from adapters.mongodb.snapshot.tables import MongoCollections
from adapters.mongodb.snapshot.windows import OpenWindows, Session
from adapters.source.log.no_log import NoLog
from adapters.source.log.open_transaction import to_json
from adapters.source.log.span_encoder import EncodePart
from adapters.source.log.table_faults import encode_without_faults
from engine.errors import InvariantError, PositionLost, SourceError
from engine.events.counts import total
from engine.isolation.incomplete import undecodable
from engine.ports.source import Encoded
from engine.saved import saved_position
from engine.snapshot.merge import Superseded

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from adapters.mongodb.events.facts import Decoded, Emptied
    from adapters.mongodb.log.reader import MongoLog
    from adapters.mongodb.saved import Began, Memory
    from adapters.mongodb.server.questions import Questions
    from adapters.mongodb.snapshot.window import MongoWindow
    from adapters.mongodb.tools import SourceTools
    from adapters.source.log.open_transaction import OpenTransaction
    from engine.config.settings import Settings
    from engine.isolation.incomplete import Incomplete
    from engine.job.saved.state import State
    from engine.model import Appeared, CollectionId, Position, Window
    from engine.ports.log import Span as TakenSpan
    from engine.ports.sink import PartWriter
    from engine.ports.source import Moved, Reading
    from engine.verify.deletes import DeleteEvents

_log = logging.getLogger("adapters")


class MongoSource:
    """The engine's `Source`. Used by the job's thread alone."""

    def __init__(self, settings: Settings, questions: Questions, tools: SourceTools) -> None:
        self._settings, self._questions, self._first = settings, questions, tools.initial
        self._encoder, self._reader, self._clock = tools.encoder, tools.chunks, tools.clock
        self._open_log = tools.open_log
        self._session: Session | None = None
        self._transaction: OpenTransaction | None = None
        self._event: Position | None = None
        self._streamed_to = (0, 0)
        self._windows = OpenWindows(settings, questions, tools)
        self._polls = Polls()
        self._arrivals: Arrivals | None = None

    # The log.

    def open_log(self, state: State) -> tuple[State, MongoLog | NoLog]:
        """Check the deployment against the state, and open the change stream at its position or its end."""
        identity = self._questions.identity()
        saved_of(state)
        check_identity(state.identity, identity)
        check_capture(self._questions.hello(), self._settings.source_as(MongoSettings).capture_mode)
        check_splitting(self._questions.version(), self._settings.source_as(MongoSettings).oversize)
        self._reader.reach()
        self._session = self._made_session(identity["replica_set"])
        state = replace(state, identity=identity)
        self._event, before = saved_of(state).event, state
        arrivals = self._arrivals = Arrivals(
            self._settings, self._session.tables.captured, self._questions.now, self._clock.monotonic
        )
        arrivals.begin(state.memory.get("capture") if state.position else None)
        state, stream = self._started(state, self._session.tables)
        if state.position is None:
            raise InvariantError("a job without a position")
        self._event = saved_of(state).event
        self._streamed_to = _streamed_to(before, state)
        self._transaction = saved_of(state).transaction
        position, state = state.position, replace(state, memory={**state.memory, **self.memory()})
        if stream is None:
            self._windows.blocking.attach(None)
            return state, NoLog()
        _log.info("reading the change stream from %s", shown(position))
        log = self._open_log(stream, position, _bounds(self._settings), self._polls)
        self._windows.blocking.attach(log)
        return state, log

    def _started(self, state: State, extents: MongoCollections) -> tuple[State, ChangeStream | None]:
        """The state to continue from, and the stream; None if no log is read."""
        open_stream = self._open_stream if self._first.streams else None
        start = StreamStart(self._settings, self._questions, extents, open_stream, self._first.statement)
        state = self._first.start(state, start)
        if start.stream is not None or open_stream is None:
            return state, start.stream
        try:
            return state, open_stream(state.position)
        except PositionLost:
            # The log that waited for the snapshot is gone.
            self._first.release()
            return self._started(state, extents)

    def _open_stream(self, start: Position | None) -> ChangeStream:
        """Open the stream. Raises PositionLost if the log does not reach back, or is not the one streamed."""
        mongodb = self._settings.source_as(MongoSettings)
        options = StreamOptions(
            mongodb.capture_mode,
            mongodb.scope,
            mongodb.target,
            mongodb.matches,
            self._settings.signals.collection,
            mongodb.oversize,
        )
        # The server refuses an event that it lacks, but only once a later one comes. If a server was put back
        # and its clock is behind that event, what is written until the clock catches up would be passed over.
        if start is not None and self._event is not None:
            check_same_log(self._questions, options, self._event, self._clock.monotonic)
        stream = ChangeStream(self._questions.change_cursor(options.place), options, start)
        if start is not None:
            try:
                stream.reach()
            except SourceError:
                stream.close()
                raise
        return stream

    def _made_session(self, replica_set: str) -> Session:
        settings = self._settings
        rules = Rules(
            settings=settings.events,
            capture=settings.capture,
            replica_set=replica_set,
            field_rules=FieldRules(settings.source_as(MongoSettings).fields),
            signal=settings.signals.collection,
        )
        whole = {"whole_bytes": 0} if settings.job.window_max_chunks else {}
        extents = MongoCollections(
            self._questions,
            rules.captures,
            streamed_to=lambda: self._streamed_to,
            beginning=self._beginning,
            conditions=settings.snapshot.conditions,
            monotonic=self._clock.monotonic,
            **whole,
        )
        return Session(rules, extents)

    def _beginning(self) -> tuple[int, int] | None:
        """The cluster time before a log that waits; None if no log waits."""
        held = self._first.held
        return held.at if held and self._first.streams else None

    def figures(self) -> dict[str, float]:
        """What Debezium's connector tells of MongoDB alone, by its names in snake case."""
        return {
            "number_of_primary_elections": self._questions.elections,
            "last_source_event_poll_time": self._polls.last_with_events_ms,
            "last_empty_poll_time": self._polls.last_empty_ms,
            "number_of_empty_polls": self._polls.empty,
        }

    def close(self) -> None:
        """Close the connections."""
        self._questions.close()

    def memory(self) -> Memory:
        """The open transaction, the beginning of the initial snapshot, and the last event."""
        return {
            "transaction": to_json(self._transaction),
            "first": cast("Began", self._first.memory()),
            "event": saved_position(self._event),
            **({"capture": self._arrivals.saved} if self._arrivals else {}),
        }

    def tick(self, state: State) -> Sequence[Incomplete]:
        """Let the log go on once the snapshot that it waits for is read."""
        held = self._first.held
        self._first.tick(state, apart=held.capped if held else ())
        self._windows.blocking.tick(state)
        if self._first.streams and self._arrivals is not None:
            self._arrivals.look(state.position)
        return ()

    def appeared(self) -> Sequence[Appeared]:
        """The collections that are captured only since the last call, or since the state was saved."""
        if self._arrivals is None or not self._first.streams:
            return ()
        return [
            found
            for found in self._arrivals.appeared()
            if found.collection != self._settings.signals.collection
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

    def _opened(self) -> Session:
        if self._session is None:
            raise InvariantError("the source was used before its log was opened")
        return self._session

    # A span.

    def encode(
        self,
        span: TakenSpan,
        writer: PartWriter,
        aside: Collection[CollectionId] = (),
        reading: Reading = MappingProxyType({}),  # noqa: ARG002  documents keep their `_id`
    ) -> Encoded:
        """Encode a span into the writer, and return what it supersedes."""
        if not isinstance(span, Span):
            raise InvariantError(f"a span of another source: {span!r}")
        rules = self._opened().rules
        signal_collection = self._settings.signals.collection
        decoded, faults = encode_without_faults(
            lambda faults: self._decoded(span, writer, {*aside, *faults}, again=bool(faults)),
            {signal_collection} if signal_collection else (),
            "collection",
        )
        self._transaction = decoded[-1].open if decoded else self._transaction
        if span.batches:
            self._event = event_position(span.batches[-1][-1])
            self._streamed_to = time_of(self._event)
        signals = tuple(signal for part in decoded for signal in part.signals)
        self._windows.streamed(signal.id for signal in signals)
        superseded = Superseded()
        for result in decoded:
            superseded |= result.superseded
        emptied = [emptying for result in decoded for emptying in result.emptied]
        left_out = [change for result in decoded for change in result.left_out]
        self._note_renames(emptied)
        for line in filter(None, (untold.taken_away(removal, rules.captures) for removal in emptied)):
            _log.warning("%s", line)
        return Encoded(
            parts=tuple(result.part for result in decoded if result.part),
            signals=signals,
            superseded=superseded,
            superseded_in=self._windows.emptied(emptied),
            replaced=untold.replaced(emptied),
            incomplete=(
                *untold.incomplete(emptied, left_out, rules.captures),
                *undecodable(faults, shown(span.start)),
            ),
            letters={
                **untold.letters(left_out),
                **letters_of(chain.from_iterable(span.batches), {*aside, *faults}),
            },
            counts=total(result.counts for result in decoded),
            lag_s=span.lag_s(self._clock.monotonic()),
        )

    def _note_renames(self, emptied: Sequence[Emptied]) -> None:
        """Note renames onto captured names: the stream has none of the documents that they bring."""
        for emptying in emptied:
            to = emptying.to
            if to is not None and self._arrivals is not None and self._opened().rules.captures(to):
                self._arrivals.renamed(to, emptying.at)

    def _decoded(
        self, span: Span, writer: PartWriter, aside: Collection[CollectionId], *, again: bool
    ) -> tuple[list[Decoded], dict[CollectionId, str]]:
        """Encode all but the collections in `aside`; also returns the faults that decoding found."""
        rules = replace(self._opened().rules, aside=frozenset(aside))
        decode = DecodePart(rules, self._windows.watch(), self._clock.now_ms)
        task = EncodePart(decode, writer, again)
        whole = rules.settings.transaction_metadata
        decoded = encode_span(self._encoder, task, span, self._transaction, whole=whole)
        return decoded, {name: why for part in decoded for name, why in part.faults.items()}

    # Windows.

    def open_window(self, window: Window) -> MongoWindow:
        """Choose a cluster time, and start the tasks that read the window's runs as of it."""
        return self._windows.open(window, self._opened(), self._streamed_to)

    # What the wiring asks for besides.

    def deletes(self, collection: CollectionId) -> DeleteEvents:
        """How delete events of documents are written that only a copy has."""
        return self._windows.deletes(collection, self._opened(), self._streamed_to)


def _bounds(settings: Settings) -> LogBounds:
    job = settings.job
    return LogBounds(
        span_rows=job.span_max_rows,
        span_bytes=job.span_max_bytes,
        batch_rows=max(1, min(10_000, job.span_max_rows)),
        await_ms=settings.source_as(MongoSettings).await_ms,
    )


def _streamed_to(before: State, state: State) -> tuple[int, int]:
    """The cluster time of the newest streamed event, as of the start.

    Not the position's time, which an idle server may not have reached yet; but states of earlier versions
    have nothing else.
    """
    event = saved_of(state).event
    if event is not None:
        return time_of(event)
    if before.position is None or before.position != state.position or "event" in before.memory:
        return 0, 0
    return time_of(before.position)
