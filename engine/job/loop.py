"""The job: turns until it is to stop, and starts anew after failures. The only place that retries.

`turns.py` has the turns. This module knows neither Spark nor a database nor a clock: they come in through the
ports.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.errors import (
    OtherServer,
    PositionLost,
    SinkError,
    SinkRefused,
    SourceError,
    StateNotSaved,
    TidemarkError,
    TopicsRefused,
)
from engine.job import recovery, startup
from engine.job.checkpoint import Checkpoint
from engine.job.isolation import Isolation
from engine.job.reports.progress_log import resume_line
from engine.job.retries import Retries
from engine.job.snapshots.windows import Windows
from engine.job.turns import Turns
from engine.snapshot.changes.restarts import restart_unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.job.parts import JobParts, Pace
    from engine.job.reports.observation import Observation
    from engine.job.saved.state import State
    from engine.model import Window
    from engine.ports.log import LogReader

_log = logging.getLogger("engine")


class Job:
    """The loop of one source. Call `run`, or drive it by hand with `start` and `turn`."""

    def __init__(
        self, job_parts: JobParts, pace: Pace, observe: Callable[[Observation], None] = lambda _seen: None
    ) -> None:
        self._parts, self._pace = job_parts, pace
        self._windows = Windows(job_parts, pace)
        self._isolation = Isolation(job_parts, pace, self._windows)
        self._checkpoint = Checkpoint(job_parts, pace)
        self._turns = Turns(job_parts, pace, self._checkpoint, self._isolation, self._windows, observe)
        self._retries = Retries(pace, job_parts.clock)
        self._log: LogReader | None = None
        self._settled = False
        self._lost: PositionLost | None = None

    @property
    def state(self) -> State:
        """Where the job is: the newest saved state, or further."""
        return self._turns.state

    @property
    def window(self) -> Window | None:
        """The window opened last, if any is in progress."""
        return self._windows.in_progress.last

    def run(self, stopping: Callable[[], bool]) -> None:
        """Turn until `stopping`. After a failure that may pass, reopen the log, with growing pauses."""
        try:
            while not self._run_session(stopping):
                pass
        finally:
            self.close()
        saved = self._checkpoint.state
        _log.info("stopped after turn %d at %s", saved.turn, self._parts.shown(saved.position))
        self._say_goes_on(" with the next start")

    def _say_goes_on(self, when: str) -> None:
        if line := resume_line(self._checkpoint.state.snapshot.tables):
            _log.info("%s%s", line, when)

    def _run_session(self, stopping: Callable[[], bool]) -> bool:
        """Turn until `stopping` or until all is done. Returns False after a failure that may pass."""
        try:
            with self._undisturbed():
                self._turn_until(stopping)
        except TopicsRefused as refused:
            self._parts.tally.count_error(refused)
            self._isolation.topics.note_refusal(refused)
            self._end_session()
            return False
        except SinkRefused:
            raise
        except PositionLost as lost:
            if not self._recovers(lost):
                raise
            # The next start saves the loss, and begins a new log.
            self._retries.note_failure(lost, self._checkpoint.state)
            self._parts.tally.count_error(lost, ends=True)
            self._end_session()
            self._lost = lost
            return False
        except (SourceError, SinkError, StateNotSaved) as error:
            self._retries.note_failure(error, self._checkpoint.state)
            self._parts.tally.count_error(error, ends=True)
            if isinstance(error, SinkError):
                self._turns.note_sink_failure()
            self._end_session()
            self._parts.sleep(self._retries.pause_s(error))
            return False
        return True

    def _end_session(self) -> None:
        self.close()
        self._settled = False

    def _turn_until(self, stopping: Callable[[], bool]) -> None:
        if not self._settled:
            self.settle()
            if not self._retries.failures:
                self._say_goes_on("")
        if not stopping():
            self.start()
        while not stopping() and not self._parts.done(self._checkpoint.state):
            position = self.state.position
            if self.turn() or self.state.position != position or self._retries.has_held():
                self._retries.note_progress()

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Turn a failure into LeaseLost if another job has taken over: it removes files and ends sessions."""
        try:
            yield
        except TidemarkError:
            self._parts.lease.confirm()
            raise

    def settle(self) -> None:
        """Load the newest state, and let everything resume from it."""
        job_parts, turns = self._parts, self._turns
        state, lost = startup.not_behind(startup.newest(job_parts), job_parts, self._pace)
        self._lost = lost or self._lost
        state = startup.at_destination(state, job_parts, self._isolation, moves=self._pace.moves)
        turns.state = self._checkpoint.state = state
        self._settled = True
        startup.resume(state, job_parts)
        if job_parts.certificates is not None:
            turns.state = self._checkpoint.state = job_parts.certificates.keep_issued(state)
        turns.state = job_parts.verification.courses.resume(turns.state, job_parts)
        turns.state = self._isolation.resume(turns.state)
        turns.state = startup.without_excluded(turns.state, job_parts)
        turns.state = turns.state.with_queue(restart_unread(turns.state.snapshot))

    def start(self) -> None:
        """Open the log at the state's position; if it is lost, a new one, where the settings allow it."""
        if self._log is not None:
            return
        turns = self._turns
        if self._lost is not None:
            self._save_lost(self._lost)
        before = turns.state.snapshot
        try:
            turns.state, self._log = self._parts.source.open_log(turns.state)
        except (PositionLost, OtherServer) as error:
            lost = recovery.loss_of(error)
            if not self._recovers(lost):
                raise
            self._save_lost(lost)
            before = turns.state.snapshot
            turns.state, self._log = self._parts.source.open_log(turns.state)
        if turns.state.awaits_log:
            turns.state = recovery.begin_repairs(turns.state, self._parts)
        self._checkpoint.keep_beginning(turns.state)
        self._parts.notices.opened(before, turns.state.snapshot)
        self._retries.note_opened()
        tally = self._parts.tally
        tally.note_opened(self._log, self._parts.source.tables().captured() if tally.watched else ())
        turns.begin(self._log)

    def _recovers(self, lost: PositionLost) -> bool:
        """Whether to begin a new log: only if there was one, and if beginning one is not what fails."""
        was_one = self._checkpoint.state.turn > 0
        return self._pace.recovers and lost.loss is not None and was_one and not self.state.awaits_log

    def _save_lost(self, lost: PositionLost) -> None:
        """Save that the log is lost, in a turn of its own."""
        job_parts, state = self._parts, self.state
        since = job_parts.show(state.position) if state.position else ""
        after = recovery.after_loss(state, lost, since, job_parts.source.lasting)
        _log.error("%s", after.recovery)
        writer = job_parts.sink.writer(after.turn)
        if after.recovery is not None:
            job_parts.notices.lost(after.recovery)
        after = self._checkpoint.commit(after, job_parts.notices.outbox.write(writer, 0))
        self._turns.state = self._checkpoint.state = after
        self._lost = None
        job_parts.desk.tell(after.turn)
        job_parts.notices.outbox.deliver()

    def close(self) -> None:
        """Close the windows and the session. The next start resumes from the saved state."""
        self._windows.in_progress.close()
        self._parts.verification.close()
        self._parts.tally.note_closed()
        if self._log is not None:
            self._log.close()
            self._log = None

    def turn(self) -> bool:
        """Take a span, send its events and a finished window's rows. Returns whether there was anything."""
        return self._turns.turn(self._session())

    def _session(self) -> LogReader:
        if self._log is None:
            self.start()
        if self._log is None:
            raise SourceError("the log did not open")
        return self._log
