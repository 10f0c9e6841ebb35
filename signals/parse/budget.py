"""Limits on signals: size, depth, number at once, and time to examine them.

A user who may insert one row into the signal table may insert a million. The stream waits while signals are
examined, so the limits are tight: just enough for what an operator sends by hand or by a script.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.errors import SignalError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DATA: Final = 64 << 10
"""The most characters of `data`, without `keys` and `ranges`. A longer signal is refused."""
MAX_SCOPED: Final = 1 << 20
"""The most characters of `data` with them."""
MAX_MESSAGE: Final = MAX_SCOPED + MAX_DATA
"""The most bytes of a message."""
MAX_KEYS: Final = 10_000
"""The most keys of a signal."""
MAX_RANGES: Final = 500
"""The most ranges of a signal."""
MAX_DEPTH: Final = 32
"""The deepest nesting of brackets in JSON."""
MAX_ID: Final = 1_000
"""The most characters of an id."""
MAX_AT_ONCE: Final = 1_000
"""The most signals examined, and answered singly, in one turn. The rest are refused together."""
MAX_CONDITIONED: Final = 4 << 20
"""The most characters in a signal's conditions, counted once for every collection that they apply to."""
MAX_NOTES: Final = 10
"""The most oddities reported about one signal."""

_SIGNAL_S: Final = 2.0
_TURN_S: Final = 5.0


class Budget:
    """The time for all signals of a turn, and for each of them."""

    def __init__(
        self, monotonic: Callable[[], float], signal_s: float = _SIGNAL_S, turn_s: float = _TURN_S
    ) -> None:
        self._monotonic, self._signal_s = monotonic, signal_s
        self._turn_ends_s = self._ends_s = monotonic() + turn_s

    @property
    def spent(self) -> bool:
        """Whether no time is left for another signal."""
        return self._monotonic() >= self._turn_ends_s

    def begin(self) -> None:
        """Start the time of the next signal."""
        self._ends_s = min(self._turn_ends_s, self._monotonic() + self._signal_s)

    def check(self) -> None:
        """Raise SignalError if the signal's time is up."""
        if self._monotonic() >= self._ends_s:
            raise SignalError(
                "it takes too long to find what it names", hint="name fewer collections, or simpler patterns"
            )


def check_depth(value: object, what: str) -> None:
    """Raise SignalError if a JSON value is nested too deeply."""
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
