"""What an observer of a job sees after each turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.job.saved.state import State
    from engine.model import Window


@dataclass(frozen=True, slots=True)
class Observation:
    """What an observer of a job sees after each turn.

    `now_s` is Unix time. `clock_s` comes from a clock that never goes back.
    """

    state: State
    events: int
    lag_s: float
    now_s: float
    window: Window | None
    clock_s: float
