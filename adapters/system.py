"""The operating system's clock and ids, in one place."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from uuid import uuid4

from engine.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable


def system_clock(sleep: Callable[[float], object] = time.sleep) -> Clock:
    """The system's clock, with random ids; `sleep` may end early when the job is to stop."""
    return Clock(time.time, time.monotonic, sleep, lambda: str(uuid4()))
