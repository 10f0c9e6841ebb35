"""Looks for stops in the signal table while the stream, which would bring them, waits.

Only a hint comes from here: the stream then goes on until it has brought the row, and the row is obeyed and
answered at its place in the log, like any other. So nothing is obeyed twice, and a row that turns out to ask
for something else costs no more than the wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_EVERY_S: Final = 0.5


class StopWatch:
    """The rows of the signal table that may ask to stop a blocking snapshot.

    `rows` tells them apart; None: they can't be read now. `clock` counts seconds and never goes back.
    """

    def __init__(self, rows: Callable[[], frozenset[str] | None], clock: Callable[[], float]) -> None:
        self._rows, self._clock = rows, clock
        self._known: frozenset[str] = frozenset()
        self._due_s = 0.0

    def begin(self) -> None:
        """Note the rows that are there already. Call it before it is decided where the stream waits."""
        self._known = self._read() or frozenset()

    def look(self) -> bool:
        """Look if it is time to; returns whether a row has come since the last look."""
        if self._clock() < self._due_s:
            return False
        found = self._read()
        if found is None or found <= self._known:
            return False
        self._known = found
        return True

    def _read(self) -> frozenset[str] | None:
        self._due_s = self._clock() + _EVERY_S
        return self._rows()
