"""The job: one turn after another, from the log to the sink. The only place that retries.

A turn takes a span of the log and sends its events; then, if a window's rows have been read and the
stream has passed its watermark, the READ events that survive. Its order is what makes a crash
harmless: the events are written where nobody sees them, the state that will hold after the turn is
saved as pending, the sink commits, the state is promoted, and only then is the log acknowledged.

    take ─► encode ─► commands ─► emit window ─► save pending ─► commit ─► promote ─► acknowledge
                                                                                 └─► open a window

The loop also turns when the log is silent, so a finished window never waits for traffic. Nothing
here knows Spark, a database or a clock: they come in by the ports.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from engine import state as saved
from engine.errors import PositionLost, SchemaChanged, SignalError, SourceError
from engine.model import ExecuteSnapshot, LogMessage, StopSnapshot, Window
from engine.plan import Budget, plan_window
from engine.ports import Encoded
from engine.snapshot import Advance
from engine.staging import Emission

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.merge import Superseded
    from engine.model import Command
    from engine.ports import (
        Executors,
        LogReader,
        OpenWindow,
        PartWriter,
        SignalDesk,
        Sink,
        Source,
        Span,
        StateStore,
    )
    from engine.pulse import Pulse
    from engine.snapshot import Table
    from engine.staging import Staged
    from engine.state import State

_log = logging.getLogger("engine")
_MEASURED_AT_ONCE = 500
_RATE_WORTH_LEARNING = 10_000


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the job turns and how much a window reads; times in seconds.

    `window_rows` bounds the first window, before a rate is known; `max_chunks` None is no bound.
    No window opens while the stream lags more than `max_lag_s`. A silent log's position is saved
    every `save_s`. After a SourceError the log is opened again `retries` times (None: no bound; as long
    as it has never been open, `first_retries` times), with pauses that double up to the longest.
    """

    chunk_rows: int = 1024
    window_s: float = 2.0
    window_rows: int = 200_000
    window_bytes: int = 256 << 20
    max_chunks: int | None = None
    tasks: int = 2
    max_lag_s: float = 5.0
    idle_s: float = 0.1
    waiting_s: float = 0.01
    save_s: float = 1.0
    retries: int | None = None
    first_retries: int = 6
    window_retries: int = 5
    backoff_s: float = 0.5
    longest_backoff_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Seams:
    """Everything the job works with, behind its ports; `now` is Unix time in seconds."""

    source: Source
    sink: Sink
    store: StateStore
    executors: Executors
    desk: SignalDesk
    pulse: Pulse
    now: Callable[[], float]
    sleep: Callable[[float], None]
    local_rows: int = 20_000


@dataclass(slots=True)
class _Opened:
    """The window in progress: what was planned, and what has superseded its rows so far."""

    window: Window
    reading: OpenWindow
    superseded: Superseded
    since_s: float


@dataclass(frozen=True, slots=True)
class Observation:
    """What an onlooker is shown after each turn."""

    state: State
    events: int
    lag_s: float
    now_s: float
    window: Window | None


class Job:
    """One source's loop. `run` until told to stop, or `start`, then `turn` by hand."""

    def __init__(
        self, seams: Seams, pace: Pace, observe: Callable[[Observation], None] = lambda _seen: None
    ) -> None:
        self._seams, self._pace, self._observe = seams, pace, observe
        self.state: State = saved.State()
        self._log: LogReader | None = None
        self._opened: _Opened | None = None
        self._rate = 0.0
        self._lag_s = 0.0
        self._saved = self.state
        self._saved_s = 0.0
        self._failures = self._window_failures = 0
        self._open_after_s = 0.0
        self._was_open = False

    def run(self, stopping: Callable[[], bool]) -> None:
        """Turn until `stopping`; reopen the log after a SourceError, with growing pauses."""
        self.settle()
        try:
            while not stopping():
                self._run_session(stopping)
        finally:
            self.close()

    def _run_session(self, stopping: Callable[[], bool]) -> None:
        try:
            self.start()
            while not stopping():
                self.turn()
                self._failures = 0
        except PositionLost:
            raise
        except SourceError as error:
            self._failures += 1
            self.close()
            self.settle()
            most = self._pace.retries if self._was_open else self._pace.first_retries
            if most is not None and self._failures > most:
                raise
            pause_s = self._pause_s(self._failures)
            _log.warning("%s; trying again in %.1f s", error, pause_s)
            self._seams.sleep(pause_s)

    def _pause_s(self, failures: int) -> float:
        longest = self._pace.longest_backoff_s
        return min(longest, self._pace.backoff_s * 2.0 ** min(failures - 1, 20))

    def settle(self) -> None:
        """Load the newest state; a turn left pending counts if the sink has all of it."""
        states = self._seams.store.load()
        if states.pending is not None:
            turn = states.pending.turn
            if self._seams.sink.applied(turn):
                self._seams.store.promote(turn)
            else:
                self._seams.store.discard(turn)
            states = self._seams.store.load()
        self.state = saved.from_json(states.promoted.document) if states.promoted else saved.State()
        self._saved = self.state

    def start(self) -> None:
        """Open the log where the state stands."""
        if self._log is None:
            self.state, self._log = self._seams.source.open_log(self.state)
            self._saved_s = self._seams.now()
            self._was_open = True

    def close(self) -> None:
        """Give up the window and the session; the next start goes on from the saved state."""
        self._close_window()
        if self._log is not None:
            self._log.close()
            self._log = None

    # One turn.

    def turn(self) -> bool:
        """Take a span, send its events and a finished window's rows. Whether there was anything."""
        log = self._session()
        span = self._take(log)
        staged = self._poll_window()
        log.hurry(on=staged is not None)
        commands = self._seams.desk.pending()
        beats = self._seams.pulse.due(self._seams.now())
        if span or commands or beats or self._may_emit(staged) or self._unsaved_for_long():
            self._send(log, span, staged)
            sent = True
        else:
            sent = False
        self._consider_window()
        return sent

    def _take(self, log: LogReader) -> Span | None:
        """The next span; one that only moves the position is noted, and saved with the next turn."""
        span = log.take(self._pace.waiting_s if self._opened else self._pace.idle_s)
        self._lag_s = max(0.0, self._seams.now() - span.committed_at_s) if span and span.entries else 0.0
        if span is None or not span.silent:
            return span
        self.state = replace(self.state, position=span.end)
        return None

    def _session(self) -> LogReader:
        if self._log is None:
            self.start()
        if self._log is None:
            raise SourceError("the log did not open")
        return self._log

    def _unsaved_for_long(self) -> bool:
        """Whether the queue has changed since the last save, or the position a while ago."""
        if self.state.snapshot != self._saved.snapshot and not self._opened:
            return True
        return self.state is not self._saved and self._seams.now() - self._saved_s >= self._pace.save_s

    def _may_emit(self, staged: Sequence[Staged] | None) -> bool:
        opened, position = self._opened, self.state.position
        if opened is None or staged is None or position is None:
            return False
        return opened.reading.reached(position)

    def _poll_window(self) -> Sequence[Staged] | None:
        """The window's staged rows once all have been read; deals with a window that failed."""
        opened = self._opened
        if opened is None:
            return None
        try:
            return opened.reading.poll()
        except SchemaChanged as error:
            _log.warning("window %s is given up and will be read again: %s", opened.window.id, error)
            self._close_window()
        except SourceError as error:
            self._window_failed(opened, error)
        return None

    def _send(self, log: LogReader, span: Span | None, staged: Sequence[Staged] | None) -> None:
        seams, now = self._seams, self._seams.now()
        after = self.state.next_turn()
        writer = seams.sink.writer(after.turn)
        encoded = seams.source.encode(span, writer) if span else Encoded()
        if span:
            after = replace(after, position=span.end, memory=dict(seams.source.memory()))
        after = self._obey(after, encoded)
        after, emitted = self._emit(after, staged, writer, encoded)
        if seams.pulse.due(now):
            seams.pulse.beat(writer, encoded.parts + len(staged or ()), now)
        seams.store.save_pending(after.turn, saved.to_json(after))
        seams.sink.commit(after.turn)
        seams.store.promote(after.turn)
        self.state = self._saved = after
        self._saved_s = now
        if after.position is not None:
            log.acknowledge(after.position)
        window = self._opened.window if self._opened else None
        self._observe(Observation(after, encoded.events + emitted, self._lag_s, now, window))

    def _obey(self, state: State, encoded: Encoded) -> State:
        seams = self._seams
        queued = [table.target.collection for table in state.snapshot.tables]
        captured = seams.source.tables().captured
        for command in seams.desk.commands(encoded.signals, lambda: (*captured(), *queued)):
            state = self._apply(state, command)
        return state

    def _apply(self, state: State, command: Command) -> State:
        match command:
            case ExecuteSnapshot():
                return replace(state, snapshot=state.snapshot.execute(command))
            case StopSnapshot():
                snapshot, stopped = state.snapshot.stop(command)
                for table in stopped:
                    self._seams.desk.stopped(table)
                self._drop_window_of(stopped)
                return replace(state, snapshot=snapshot)
            case LogMessage():
                return state

    def _drop_window_of(self, stopped: Sequence[Table]) -> None:
        gone = {table.ticket for table in stopped}
        if self._opened and any(run.ticket in gone for run in self._opened.window.runs):
            self._close_window()

    # Emitting a window.

    def _emit(
        self, state: State, staged: Sequence[Staged] | None, writer: PartWriter, encoded: Encoded
    ) -> tuple[State, int]:
        """Send what survives of the window, behind the span's parts, once its watermark is reached."""
        opened = self._opened
        if opened is None:
            return state, 0
        opened.superseded |= encoded.superseded
        if staged is None or state.position is None or not opened.reading.reached(state.position):
            return state, 0
        self._window_failures = 0
        emissions = [
            Emission(one, opened.superseded.of(one.collection), encoded.parts + index)
            for index, one in enumerate(staged)
        ]
        emitted = self._write(emissions, writer)
        state = self._record(state, opened, staged, emitted)
        self._learn_rate(sum(one.rows for one in staged), opened)
        self._close_window()
        return state, sum(emitted)

    def _write(self, emissions: Sequence[Emission], writer: PartWriter) -> list[int]:
        if sum(emission.staged.rows for emission in emissions) <= self._seams.local_rows:
            return [emission.write(writer) for emission in emissions]
        return self._seams.executors.map(EmitTo(writer), emissions)

    def _record(
        self, state: State, opened: _Opened, staged: Sequence[Staged], emitted: Sequence[int]
    ) -> State:
        snapshot = state.snapshot
        for ticket in dict.fromkeys(run.ticket for run in opened.window.runs):
            runs = [run for run in opened.window.runs if run.ticket == ticket]
            snapshot, done = snapshot.advanced(
                Advance(
                    ticket=ticket,
                    last=runs[-1].upto,
                    finished=ticket in opened.window.finishes,
                    rows=sum(one.rows for one in staged if one.ticket == ticket),
                    emitted=sum(
                        rows for one, rows in zip(staged, emitted, strict=True) if one.ticket == ticket
                    ),
                    chunks=sum(run.chunks for run in runs),
                )
            )
            if done is not None:
                self._seams.desk.finished(done)
        return replace(state, snapshot=snapshot)

    def _learn_rate(self, rows: int, opened: _Opened) -> None:
        if rows < _RATE_WORTH_LEARNING:
            return
        elapsed_s = max(self._seams.now() - opened.since_s, 0.001)
        rate = rows / elapsed_s
        self._rate = rate if not self._rate else (self._rate + rate) / 2

    # Opening a window.

    def _consider_window(self) -> None:
        """Open the next window if there is something to read and the stream keeps up."""
        if self._opened or not self.state.snapshot.tables or self._seams.now() < self._open_after_s:
            return
        if self._lag_s > self._pace.max_lag_s:
            _log.info("no window opens while the stream lags %.1f s", self._lag_s)
            self._open_after_s = self._seams.now() + 1.0
            return
        self._measure()
        plan = plan_window(self.state.snapshot, self._budget(), self._seams.source.tables().boundaries)
        if plan.runs:
            window = Window(str(uuid4()), plan.runs, plan.finishes)
            self._open(window)
        elif plan.finishes:
            self._finish_empty(plan.finishes)

    def _open(self, window: Window) -> None:
        since_s = self._seams.now()
        try:
            reading = self._seams.source.open_window(window)
        except SchemaChanged as error:
            _log.warning("window %s could not open yet: %s", window.id, error)
            self._open_after_s = since_s + self._pace.backoff_s
            return
        self._opened = _Opened(window, reading, reading.superseded, since_s)

    def _measure(self) -> None:
        """Measure the collections that come next in the queue; refuse those that can't be read."""
        waiting = [table for table in self.state.snapshot.tables if table.progress is None]
        if len(waiting) < len(self.state.snapshot.tables):
            waiting = waiting[:1]
        waiting = waiting[:_MEASURED_AT_ONCE]
        extents = self._seams.source.tables().measure([table.target for table in waiting])
        snapshot, now_ms = self.state.snapshot, int(self._seams.now() * 1000)
        for table, extent in zip(waiting, extents, strict=True):
            if isinstance(extent, SignalError):
                self._seams.desk.failed(table, extent)
                snapshot = snapshot.without([table])
            else:
                snapshot = snapshot.began(table.ticket, extent, now_ms)
        self.state = replace(self.state, snapshot=snapshot)

    def _budget(self) -> Budget:
        pace = self._pace
        rows = int(self._rate * pace.window_s) or pace.window_rows
        return Budget(
            rows=max(rows, pace.chunk_rows),
            bytes=pace.window_bytes,
            tasks=pace.tasks,
            chunk_rows=pace.chunk_rows,
            chunks=pace.max_chunks,
        )

    def _finish_empty(self, tickets: frozenset[int]) -> None:
        done = [table for table in self.state.snapshot.tables if table.ticket in tickets]
        for table in done:
            self._seams.desk.finished(table)
        self.state = replace(self.state, snapshot=self.state.snapshot.without(done))

    def _window_failed(self, opened: _Opened, error: SourceError) -> None:
        self._close_window()
        self._window_failures += 1
        if self._window_failures <= self._pace.window_retries:
            pause_s = self._pause_s(self._window_failures)
            _log.warning("%s; the window is read again in %.1f s", error, pause_s)
            self._open_after_s = self._seams.now() + pause_s
            return
        self._window_failures = 0
        tickets = {run.ticket for run in opened.window.runs}
        failed = [table for table in self.state.snapshot.tables if table.ticket in tickets]
        for table in failed:
            self._seams.desk.failed(table, error)
        self.state = replace(self.state, snapshot=self.state.snapshot.without(failed))

    def _close_window(self) -> None:
        if self._opened is not None:
            self._opened.reading.close()
            self._opened = None


@dataclass(frozen=True, slots=True)
class EmitTo:
    """The task that writes one emission; goes to the executors."""

    writer: PartWriter

    def __call__(self, emission: Emission) -> int:
        """Write it; gives the rows written."""
        return emission.write(self.writer)
