"""A clock that stands still but for pauses, for tests of what waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from engine.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class HandClock:
    """The time in seconds, which a test may move; pauses move it, too. `clock` reads it."""

    time_s: float = 0.0
    _ids: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def clock(self) -> Clock:
        """The clock; its ids are numbers."""
        return Clock(self.monotonic, self.monotonic, self.sleep, lambda: str(next(self._ids)))

    def monotonic(self) -> float:
        """The time."""
        return self.time_s

    def sleep(self, seconds: float) -> None:
        """Move the time."""
        self.time_s += seconds
