"""The last hour of a job, sampled every few seconds in a thread of its own and kept in memory."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from adapters.system import start_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EVERY_S: Final = 5.0
KEPT_S: Final = 3600.0
STALLED_S: Final = 300.0
"""After so long without a pass of its loop a job counts as stalled."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A job's counters and conditions at `at_s`, by a clock that never goes back."""

    at_s: float
    passes: int = 0
    sent: int = 0
    read: int = 0
    lag_s: float = 0.0
    kept_bytes: int | None = None
    staged_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Rates:
    """What happened per second up to a sample."""

    at_s: float
    events: float
    rows: float


class History:
    """Takes samples; `begin` starts the thread, `close` ends it."""

    def __init__(self, sample: Callable[[], Sample]) -> None:
        self._sample = sample
        self._kept: deque[Sample] = deque(maxlen=int(KEPT_S / EVERY_S))
        self._passed = sample()
        self._stop = threading.Event()
        self.also: Callable[[], None] = lambda: None
        """What else is done with each sample."""

    def begin(self) -> None:
        """Take samples from now on."""
        start_thread(self._keep_sampling, "tidemark-history")

    def close(self) -> None:
        """Take no more samples."""
        self._stop.set()

    def _keep_sampling(self) -> None:
        while not self._stop.wait(EVERY_S):
            self.take()
            self.also()

    def take(self) -> None:
        """Take a sample."""
        sample = self._sample()
        if sample.passes != self._passed.passes:
            self._passed = sample
        self._kept.append(sample)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The samples kept, in order."""
        return tuple(self._kept)

    def rates(self) -> Iterator[Rates]:
        """Rates between samples."""
        for before, sample in pairwise(self.samples):
            seconds = max(sample.at_s - before.at_s, 1e-3)
            yield Rates(
                sample.at_s, (sample.sent - before.sent) / seconds, (sample.read - before.read) / seconds
            )

    def still_s(self) -> float:
        """For how long the job's loop has not passed."""
        now = self._sample()
        return 0.0 if now.passes != self._passed.passes else now.at_s - self._passed.at_s
