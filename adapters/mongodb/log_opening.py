"""Opens the change stream of one MongoDB deployment where a state says.

Owns what an opening sets up, and what outlasts it: the open windows, and what is known of the stream.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from adapters.mongodb.documents.selection import FieldRules
from adapters.mongodb.events.codec import Rules
from adapters.mongodb.log.arrivals import Arrivals
from adapters.mongodb.log.options import StreamOptions
from adapters.mongodb.log.position import shown, time_of
from adapters.mongodb.log.reader import LogBounds, Polls
from adapters.mongodb.log.same_log import check_same_log
from adapters.mongodb.log.scope_change import scope_change
from adapters.mongodb.log.stream import ChangeStream
from adapters.mongodb.log_session import LogSession
from adapters.mongodb.saved import saved_of
from adapters.mongodb.server.connection import check_capture, check_identity, check_splitting
from adapters.mongodb.settings import MongoSettings
from adapters.mongodb.snapshot.initial import StreamStart
from adapters.mongodb.snapshot.tables import MongoCollections
from adapters.mongodb.stream_state import StreamState
from adapters.source.log.no_log import NoLog
from adapters.source.log.open_transaction import to_json
from engine.errors import InvariantError, OtherHistory, PositionLost, SourceError
from engine.saved import saved_position

if TYPE_CHECKING:
    from adapters.mongodb.log.reader import MongoLog
    from adapters.mongodb.saved import Memory, SavedCapture, SnapshotOrigin
    from adapters.mongodb.server.questions import Questions
    from adapters.mongodb.snapshot.windows import OpenWindows
    from adapters.mongodb.tools import SourceTools
    from engine.config.settings import Settings
    from engine.job.saved.state import State
    from engine.model import Position

_log = logging.getLogger("adapters")


class LogOpening:
    """Opens the log. `session` is what the latest opening has set up."""

    def __init__(
        self, settings: Settings, questions: Questions, tools: SourceTools, windows: OpenWindows
    ) -> None:
        self._settings, self._questions, self._tools = settings, questions, tools
        self._first = tools.initial
        self.windows = windows
        self.streamed, self.polls = StreamState(), Polls()
        self.session: LogSession | None = None
        self._saved_capture: SavedCapture | None = None

    def open(self, state: State) -> tuple[State, MongoLog | NoLog]:
        """Check the deployment against the state, and open the change stream at its position or its end."""
        identity = self._questions.identity()
        saved_of(state)
        check_identity(state.identity, identity)
        check_capture(self._questions.hello(), self._settings.source_as(MongoSettings).capture_mode)
        check_splitting(self._questions.version(), self._settings.source_as(MongoSettings).oversize)
        self._tools.chunks.reach()
        session = self.session = self._made_session(identity["replica_set"])
        state = replace(state, identity=identity)
        self.streamed.event, before = saved_of(state.perhaps_sent[-1]).event, state
        self._saved_capture = state.memory.get("capture") if state.position else None
        session.arrivals.begin(self._saved_capture)
        state, stream = self._started(state, session.tables)
        if state.position is None:
            raise InvariantError("a job without a position")
        self.streamed.event = saved_of(state).event
        self.streamed.to = _streamed_to(before, state)
        self.streamed.transaction = saved_of(state).transaction
        position, state = state.position, replace(state, memory={**state.memory, **self.memory()})
        if stream is None:
            self.windows.blocking.attach(None)
            return state, NoLog()
        _log.info("reading the change stream from %s", shown(position))
        bounds, monotonic = _bounds(self._settings), self._tools.clock.monotonic
        log = self._tools.open_log(stream, position, monotonic, bounds, self.polls)
        self.windows.blocking.attach(log)
        return state, log

    def _started(self, state: State, collections: MongoCollections) -> tuple[State, ChangeStream | None]:
        """The state to continue from, and the stream; None if no log is read."""
        open_stream = self._open_stream if self._first.streams else None
        start = StreamStart(self._settings, self._questions, collections, open_stream, self._first.statement)
        state = self._first.start(state, start)
        if start.stream is not None or open_stream is None:
            return state, start.stream
        try:
            return state, open_stream(state.position)
        except PositionLost:
            # The log that waited for the snapshot is gone.
            self._first.release()
            return self._started(state, collections)

    def _open_stream(self, start: Position | None) -> ChangeStream:
        """Open the stream. Raises PositionLost if the log does not reach back, or is not the one streamed.

        Raises ConfigError if the stream can't be continued in the scope that the settings have now.
        """
        try:
            return self._stream_from(start)
        except OtherHistory as error:
            # The event that is missing may well be in the log, but outside of this scope.
            changed = scope_change(self._saved_capture, self._settings.source_as(MongoSettings))
            if changed is None:
                raise
            raise changed from error

    def _stream_from(self, start: Position | None) -> ChangeStream:
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
        check = partial(self._check_same_log, options)
        if start is not None:
            check()
        stream = ChangeStream(self._questions.change_cursor(options.namespace), options, start, check)
        if start is not None:
            try:
                stream.reach()
            except SourceError:
                stream.close()
                raise
        return stream

    def _check_same_log(self, options: StreamOptions) -> None:
        """Raise PositionLost if the server's log lacks the last event that was streamed."""
        if self.streamed.event is not None:
            check_same_log(self._questions, options, self.streamed.event, self._tools.clock.monotonic)

    def _made_session(self, replica_set: str) -> LogSession:
        settings = self._settings
        rules = Rules(
            settings=settings.events,
            capture=settings.capture,
            replica_set=replica_set,
            field_rules=FieldRules(settings.source_as(MongoSettings).fields),
            signal=settings.signals.collection,
        )
        whole = {"whole_bytes": 0} if settings.job.window_max_chunks else {}
        collections = MongoCollections(
            self._questions,
            rules.captures,
            streamed_to=lambda: self.streamed.to,
            beginning=self._beginning,
            conditions=settings.snapshot.conditions,
            monotonic=self._tools.clock.monotonic,
            **whole,
        )
        arrivals = Arrivals(settings, collections.captured, self._questions.now, self._tools.clock.monotonic)
        return LogSession(rules, collections, arrivals)

    def _beginning(self) -> tuple[int, int] | None:
        """The cluster time before a log that waits; None if no log waits."""
        held = self._first.held
        return held.at if held and self._first.streams else None

    def memory(self) -> Memory:
        """The open transaction, the beginning of the initial snapshot, and the last event."""
        return {
            "transaction": to_json(self.streamed.transaction),
            "first": cast("SnapshotOrigin", self._first.memory()),
            "event": saved_position(self.streamed.event),
            **({"capture": self.session.arrivals.saved} if self.session else {}),
        }


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
