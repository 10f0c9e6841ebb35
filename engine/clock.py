"""Time, pauses and ids, as values that are passed in: nobody but the wiring takes them from the system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Clock:
    """A job's time, and the source of its ids.

    - `now` is Unix time in seconds, for events and logs. Somebody may set it ahead or back.
    - `monotonic` counts seconds and never goes back.
    - `sleep` pauses for some seconds. It may end early, and returns true when the job is to stop.
    - `new_id` makes an id that no other call makes.
    """

    now: Callable[[], float]
    monotonic: Callable[[], float]
    sleep: Callable[[float], object]
    new_id: Callable[[], str]

    @property
    def now_ms(self) -> int:
        """Unix time in whole milliseconds."""
        return int(self.now() * 1000)
