"""Watches the log that the server keeps for the slot, and warns before it fills a disk or the slot is lost.

A slot keeps the log back to the oldest transaction that was open when the acknowledged position was written.
The log grows while the job lags or is stopped, and while one long transaction is open.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from adapters.postgres.server.questions.slots import size

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.postgres.server.questions.slots import SlotRetention, Slots

_log = logging.getLogger("adapters")
_EVERY_S = 60.0


class Retention:
    """Looks at one slot periodically, and warns when its state got worse."""

    def __init__(self, slot: str, warn_bytes: int, clock: Callable[[], float]) -> None:
        self._slot, self._warn_bytes, self._clock = slot, warn_bytes, clock
        self._due = clock()
        self._told: SlotRetention | None = None
        self.bytes: int | None = None
        """What the server kept when it was last asked; None: it was not."""

    def look(self, slots: Slots) -> None:
        """Look if it is time to. Raises SourceError."""
        if self._clock() < self._due:
            return
        self._due = self._clock() + _EVERY_S
        kept = slots.kept(self._slot)
        if kept is not None:
            self.bytes = kept.bytes
            self._judge(kept)

    def _judge(self, kept: SlotRetention) -> None:
        if kept.bytes <= self._warn_bytes and not kept.rank:
            self._told = None
        elif self._told is None or kept.rank > self._told.rank or kept.bytes >= 2 * max(self._told.bytes, 1):
            self._told = kept
            _log.warning(
                "the server keeps %s for slot %s: the job lags, or a transaction stays open;"
                " tidemark.wal.warn.bytes is %s",
                *(kept, self._slot, size(self._warn_bytes)),
            )
