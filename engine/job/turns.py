"""One turn after another: from the log to the sink.

A turn takes a span of the log and writes its events to the sink. If a window's rows are read and the stream
has passed its watermark, the turn also writes the surviving READ events. A turn also comes when the log is
silent, so a finished window never waits for traffic.

`checkpoint.py` shows the steps of a turn, and what a crash after each of them means.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.errors import TopicsRefused
from engine.isolation.incomplete import with_faults
from engine.job import recovery
from engine.job.commands import Commands
from engine.job.new_collections import with_new_collections
from engine.job.reports.observation import Observation
from engine.job.saved.state import State
from engine.job.turn_size import TurnSize
from engine.ports.source import EncodingResult
from engine.snapshot.changes.moved_rows import with_moved

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from engine.isolation.incomplete import Incomplete
    from engine.job.checkpoint import Checkpoint
    from engine.job.isolation import Isolation
    from engine.job.parts import JobParts, Pace
    from engine.job.snapshots.windows import Windows
    from engine.model import Arrival, Part, Window
    from engine.ports.log import LogReader, Span
    from engine.ports.sink import PartWriter

_RELEASING_S = 2.0


class Turns:
    """The turns of a job. `state` is where they are, `lag_s` how far the stream is behind its source."""

    def __init__(
        self,
        job_parts: JobParts,
        pace: Pace,
        checkpoint: Checkpoint,
        isolation: Isolation,
        windows: Windows,
        observe: Callable[[Observation], None],
    ) -> None:
        self._parts, self._pace, self._observe = job_parts, pace, observe
        self._checkpoint, self._isolation, self._windows = checkpoint, isolation, windows
        self._commands = Commands(job_parts, pace, windows)
        self._size = TurnSize()
        self.state: State = State()
        self.lag_s = 0.0

    @property
    def window(self) -> Window | None:
        """The window opened last, if any is in progress."""
        return self._windows.in_progress.last

    def begin(self, log: LogReader) -> None:
        """Begin with a log that has just been opened."""
        self._checkpoint.saved_s = self._parts.clock()
        self._windows.wake = log.wake
        if self._size.share < 1:
            log.limit(self._size.share)

    def note_sink_failure(self) -> None:
        """Take smaller spans after a turn that the sink did not take."""
        self._size = self._size.after_failure()

    def turn(self, log: LogReader) -> bool:
        """Take a span, send its events and a finished window's rows. Returns whether there was anything."""
        self._parts.tally.passes += 1
        released = self._release(log)
        found = [*self._parts.source.tick(self.state), *self._isolation.topics.unsaved_faults(self.state)]
        appeared = self._parts.take_appeared()
        span = self._take(log)
        self.state = self._windows.poll(self.state)
        log.hurry(on=self._windows.in_progress.any_waits)
        sends = bool(span or found or appeared) or self._due() or self._windows.has_rows(self.state)
        if sends:
            self._send(log, span, found, appeared)
        self.state = self._parts.verification.poll(self.state, self._parts)
        self._repair(log)
        self._windows.send_beside(self.state)
        self.state, may_open = self._windows.measure(self.state, self.lag_s)
        if may_open:
            self.state = self._windows.open_next(self.state)
        return sends or released

    def _due(self) -> bool:
        """Whether a turn is due although the log is silent: for what is to be told, a heartbeat or a save."""
        job_parts = self._parts
        if job_parts.desk.pending() or job_parts.notices.outbox.waiting:
            return True
        if job_parts.pulse.due(job_parts.clock()):
            return True
        return self._checkpoint.is_due(self.state, between_windows=self.window is None)

    def _take(self, log: LogReader) -> Span | None:
        """The next span, or None. If only the position moved, it is noted and saved with the next turn."""
        if self._parts.source.holds_log(self.state):
            self.lag_s = 0.0  # what waits does not lag, and must not keep windows from opening
            self._parts.sleep(self._pace.held_s)
            return None
        span = log.take(self._patience_s())
        self.lag_s = max(0.0, self._parts.now() - span.committed_at_s) if span and span.entries else 0.0
        if span is None or not span.silent:
            return span
        self.state = replace(self.state, position=span.end)
        return None

    def _patience_s(self) -> float:
        """How long to wait for a silent log: not at all while rows can be emitted."""
        if self._windows.has_rows(self.state):
            return 0.0
        return self._pace.waiting_s if self.window else self._pace.idle_s

    # What a turn sends.

    def _send(
        self,
        log: LogReader,
        span: Span | None,
        found: Sequence[Incomplete],
        appeared: Sequence[Arrival],
    ) -> None:
        job_parts, now, clock_s = self._parts, self._parts.now(), self._parts.clock()
        after = self.state.next_turn()
        writer = job_parts.sink.writer(after.turn)
        encoded = self._encode(span, writer, after, found)
        position = span.end if span else after.position
        after = replace(after, memory=dict(job_parts.source.memory()), position=position)
        after = self._isolation.note(after, encoded)
        refused = self._isolation.topics.withheld_topics(after.incomplete)
        after = self._isolation.settle(self._commands.obey(after, encoded.signals))
        after = self._with_new_collections(after, appeared)
        after = after.with_queue(with_moved(after.snapshot, encoded.moved))
        after = job_parts.verification.courses.note_unsent_changes(after, encoded)
        self._windows.in_progress.supersede(encoded)
        after, parts, events = self._with_rows(after, encoded.parts, writer)
        if job_parts.pulse.due(clock_s):
            parts.append(job_parts.pulse.beat(writer, _next_number(parts), clock_s, now))
        parts += job_parts.notices.outbox.write(writer, _next_number(parts))
        after = self._isolation.topics.withhold(after, parts, refused)
        self._windows.in_progress.give_way(encoded)
        begun_s = job_parts.clock()
        after = self._checkpoint.commit(after, parts)
        if span:
            self._resize(log, job_parts.clock() - begun_s)
        self._windows.note_commit()
        self._finish(log, after, events, now, clock_s)

    def _encode(
        self, span: Span | None, writer: PartWriter, state: State, found: Sequence[Incomplete]
    ) -> EncodingResult:
        """A span's events, written as parts, and what else it says; `found` is added to its faults."""
        job_parts, encoded = self._parts, EncodingResult()
        if span:
            hidden = self._isolation.hidden_collections(with_faults(state.incomplete, found))
            encoded = job_parts.source.encode(span, writer, hidden, state.snapshot.reading)
        job_parts.tally.count_span(span.entries if span else 0, encoded)
        job_parts.notices.note_from_source(encoded.notices)
        if encoded.lag_s is not None:
            self.lag_s = encoded.lag_s
        return replace(encoded, incomplete=(*found, *encoded.incomplete))

    def _with_new_collections(self, state: State, appeared: Sequence[Arrival]) -> State:
        """The state with what has become of collections that are captured only now."""
        job_parts = self._parts
        appeared = [*appeared, *job_parts.take_appeared()]
        job_parts.tally.note_new_collections(new.collection for new in appeared)
        state, appeared = self._isolation.returned(state, appeared)
        return with_new_collections(
            state, appeared, job_parts.listener, self._windows.in_progress.tickets, reads=job_parts.reads_new
        )

    def _with_rows(
        self, state: State, streamed: Sequence[Part], writer: PartWriter
    ) -> tuple[State, list[Part], int]:
        """Write what signals have added and a window's rows behind the streamed parts.

        Returns the state, all parts and how many events they are.
        """
        parts = [*streamed]
        if added := self._parts.take_added():
            parts.append(writer.write(_next_number(parts), added))
            state = replace(state, memory=dict(self._parts.source.memory()))
        events = sum(part.events for part in parts)
        state, emitted, read = self._windows.emit(state, writer, _next_number(parts))
        return state, parts + emitted, events + read

    def _finish(self, log: LogReader, after: State, events: int, now_s: float, clock_s: float) -> None:
        self._isolation.note_saved(self._checkpoint.state, after)
        recovery.tell_end(self._checkpoint.state, after)
        if self._parts.certificates is not None:
            after = self._parts.certificates.keep_issued(after)
        self.state = self._checkpoint.state = after
        self._checkpoint.saved_s = clock_s
        self._parts.desk.tell(after.turn)
        self._parts.notices.outbox.deliver()
        if after.position is not None:
            log.acknowledge(after.position)
        seen = Observation(after, events, self.lag_s, now_s, self.window, clock_s)
        self._parts.tally.count_turn(seen)
        self._observe(seen)

    def _resize(self, log: LogReader, seconds: float) -> None:
        """Take smaller spans while the sink is slow, and larger ones again when it is fast."""
        size = self._size.after_turn(seconds)
        if size != self._size:
            self._size = size
            log.limit(size.share)

    # Turns that take no span.

    def _release(self, log: LogReader) -> bool:
        """Offer kept events to the topics that refused them, for 2 s at most. Returns whether any were taken.

        Each piece is a turn of its own. If it is refused, nothing else has to be sent again.
        """
        job_parts, begun_s, taken = self._parts, self._parts.clock(), False
        while job_parts.clock() - begun_s < _RELEASING_S and (
            piece := self._isolation.topics.next_release(self.state)
        ):
            now_s, clock_s = job_parts.now(), job_parts.clock()
            after, parts = self._alone(piece.events)
            after = replace(after, incomplete=piece.after_sending(after.incomplete))
            try:
                after = self._checkpoint.commit(after, parts)
            except TopicsRefused as refused:
                if after.attempt is None:  # else a start must know of it until the job has come past it
                    job_parts.store.discard(after.turn)
                self._isolation.topics.note_refused_release(piece, refused)
                continue
            self._finish(log, after, parts[0].events, now_s, clock_s)
            self._isolation.topics.note_release(piece)
            taken = True
        return taken

    def _repair(self, log: LogReader) -> None:
        """Send the deletes that are due, each piece in a turn of its own."""
        job_parts = self._parts
        for deletes in job_parts.verification.due:
            now_s, clock_s = job_parts.now(), job_parts.clock()
            after, parts = self._alone(deletes.events)
            after = self._checkpoint.commit(after, parts)
            self._finish(log, after, parts[0].events, now_s, clock_s)
            deletes.sent()

    def _alone(self, events: pa.RecordBatch) -> tuple[State, list[Part]]:
        """The next turn's state and parts, if these are all of its events. They are the first part.

        Rows may be on their way meanwhile, but none of these events' keys. A topic that refused events gets
        no rows until it has taken all that was kept for it. A delete is due only while no span touches its
        key, and a row of that key goes out only after the span that inserted it.
        """
        job_parts = self._parts
        after = self.state.next_turn()
        writer = job_parts.sink.writer(after.turn)
        part = writer.write(0, [events])
        after = replace(after, memory=dict(job_parts.source.memory()))
        return after, [part, *job_parts.notices.outbox.write(writer, 1)]


def _next_number(parts: Sequence[Part]) -> int:
    return max((part.number for part in parts), default=-1) + 1
