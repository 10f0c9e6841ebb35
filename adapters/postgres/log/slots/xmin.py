"""The slot's xmin for the events' source blocks, read at most once per `xmin.fetch.interval.ms`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.postgres.server.connection import Server


class SlotXmin:
    """The oldest transaction whose catalog rows the slot keeps; calling it returns its id, or None.

    With `interval_s` 0 it is never read and always None.
    """

    def __init__(self, server: Server, slot: str, interval_s: float, clock: Callable[[], float]) -> None:
        self._server, self._slot = server, slot
        self._interval_s, self._clock = interval_s, clock
        self._due = clock()
        self._last: int | None = None

    def __call__(self) -> int | None:
        """Return the last value, after reading it again if due. Raises SourceError."""
        if self._interval_s and self._clock() >= self._due:
            self._last = self._read()
            self._due = self._clock() + self._interval_s
        return self._last

    def _read(self) -> int | None:
        with self._server.open() as questions:
            return questions.slots.xmin(self._slot)
