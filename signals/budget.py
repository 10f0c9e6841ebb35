"""What signals may cost: their size, their depth, how many at once, and the time to judge them. Pure.

Whoever may insert a row into the signal table may insert a million. The stream waits while signals are
judged, so all bounds are small against what an operator sends by hand or by a script.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from engine.errors import SignalError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DATA: Final = 64 << 10
"""Characters of `data`, or bytes of a message, that are looked at; a longer signal is refused."""
MAX_DEPTH: Final = 32
"""Brackets within each other, in JSON."""
MAX_ID: Final = 1_000
"""Characters of an id."""
MAX_AT_ONCE: Final = 1_000
"""Signals of one turn that are judged; the others are refused together."""
MAX_CONDITIONED: Final = 4 << 20
"""Characters of the conditions of one signal, each counted for every collection that it holds for."""
MAX_NOTES: Final = 10
"""Oddities of one signal that are told."""

_SIGNAL_S: Final = 2.0
_TURN_S: Final = 5.0


class Budget:
    """The time for the signals of one turn, and for each of them."""

    def __init__(
        self,
        signal_s: float = _SIGNAL_S,
        turn_s: float = _TURN_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._signal_s, self._clock = signal_s, clock
        self._turn_ends_s = self._ends_s = clock() + turn_s

    @property
    def spent(self) -> bool:
        """Whether there is no time left for another signal."""
        return self._clock() >= self._turn_ends_s

    def begin(self) -> None:
        """Begin with the next signal."""
        self._ends_s = min(self._turn_ends_s, self._clock() + self._signal_s)

    def check(self) -> None:
        """Raise SignalError where the signal has had its time."""
        if self._clock() >= self._ends_s:
            raise SignalError(
                "it takes too long to find what it names", hint="name fewer collections, or simpler patterns"
            )


def check_depth(value: object, what: str) -> None:
    """Raise SignalError where a JSON value is nested too deeply."""
    level, depth = [value], 0
    while level := [
        inner
        for outer in level
        if isinstance(outer, (list, dict))
        for inner in (outer.values() if isinstance(outer, dict) else outer)
    ]:
        depth += 1
        if depth > MAX_DEPTH:
            raise SignalError(f"{what} has more than {MAX_DEPTH} brackets within each other")
