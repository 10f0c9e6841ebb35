"""The driver's clock under torture, which may be set ahead or back while the job runs.

Only wall-clock time is affected: nobody can set a monotonic clock.
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
    """Replaces `time.time`. `ahead_s` is how far it is ahead of the true time."""

    ahead_s: float = 0.0

    def __call__(self) -> float:
        """The time that the driver sees."""
        return time.clock_gettime(time.CLOCK_REALTIME) + self.ahead_s

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Make the whole process read this clock."""
        with mock.patch.object(time, "time", self):
            yield
