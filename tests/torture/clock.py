"""The clock of the driver under torture, which may be set ahead or back while the job runs.

Only what asks for the date is misled: a monotonic clock is nobody's to set.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class DriversClock:
    """Takes the place of `time.time`; `ahead_s` is how far it is ahead of the true time."""

    ahead_s: float = 0.0

    def __call__(self) -> float:
        """The time that the driver is told."""
        return time.clock_gettime(time.CLOCK_REALTIME) + self.ahead_s

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Have the whole process read this clock."""
        with mock.patch.object(time, "time", self):
            yield
