"""Failures that may pass: how many came in a row, how long to wait after one, and when to give up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import ExecutorsFailed, SourceError
from engine.job.outage import Outage
from engine.job.repeated_failures import RepeatedFailures

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.job.parts import Pace
    from engine.job.saved.state import State


class Retries:
    """Counts the failures in a row. `clock` counts seconds and never goes back."""

    def __init__(self, pace: Pace, clock: Callable[[], float]) -> None:
        self._pace, self._clock = pace, clock
        self._repeated, self._outage = RepeatedFailures(), Outage()
        self._opened_s = 0.0
        self._was_open = False
        self.failures = 0

    def note_opened(self) -> None:
        """Note that the log is open."""
        self._opened_s = self._clock()
        self._was_open = True

    def note_failure(self, error: Exception, saved: State) -> None:
        """Note a failure. Raises it if the executors fail time and again without progress."""
        if isinstance(error, ExecutorsFailed) and self._repeated.note(saved):
            raise error
        self.failures += 1

    def pause_s(self, error: Exception) -> float:
        """How long to wait before the next attempt. Raises the error if there were enough of them."""
        unopened = isinstance(error, SourceError) and not self._was_open
        most = self._pace.first_retries if unopened else self._pace.retries
        if most is not None and self.failures > most:
            raise error
        pause_s = self._pace.pause_s(self.failures, was_open=self._was_open)
        self._outage.note_failure(error, pause_s, self._clock())
        return pause_s

    def has_held(self) -> bool:
        """Whether the session has lasted longer than any pause: silence proves little before."""
        return self._clock() - self._opened_s > self._pace.longest_backoff_s

    def note_progress(self) -> None:
        """Note that the job got further."""
        if self.failures:
            self.failures = 0
            self._outage.note_progress(self._clock())
