"""Watches the log that the server keeps for the slot, and warns before it fills a disk or the slot is lost.

A slot keeps the log back to the oldest transaction that was open when the acknowledged position was written.
The log grows while the job lags or is stopped, and while one long transaction is open.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from adapters.postgres.server.connection import source_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

_log = logging.getLogger("adapters")
_EVERY_S = 60.0
_GIB = 1 << 30
_KEPT: LiteralString = (
    "SELECT coalesce(wal_status, 'reserved'),"
    " coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint, safe_wal_size"
    " FROM pg_replication_slots WHERE slot_name = %s"
)
_STATUSES = ("reserved", "extended", "unreserved", "lost")
"""From good to bad, as in `pg_replication_slots.wal_status`."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What the server keeps for a slot. After `left` more bytes it invalidates the slot (None: never)."""

    status: str
    bytes: int
    left: int | None = None

    @property
    def rank(self) -> int:
        """How bad the status is; an unknown status counts as the worst."""
        return _STATUSES.index(self.status) if self.status in _STATUSES else len(_STATUSES)

    def __str__(self) -> str:
        until = "" if self.left is None else f"; the server gives the slot up after {_size(self.left)} more"
        return f"{_size(self.bytes)} of log, status {self.status!r}{until}"


class Retention:
    """Looks at one slot periodically, and warns when its state got worse."""

    def __init__(self, slot: str, warn_bytes: int, clock: Callable[[], float]) -> None:
        self._slot, self._warn_bytes, self._clock = slot, warn_bytes, clock
        self._due = clock()
        self._told: Kept | None = None

    def look(self, connection: psycopg.Connection) -> None:
        """Look if it is time to. Raises SourceError."""
        if self._clock() < self._due:
            return
        self._due = self._clock() + _EVERY_S
        with source_errors("looking at the replication slot"):
            row = connection.execute(_KEPT, [self._slot]).fetchone()
        if row is not None:
            self._judge(Kept(*row))

    def _judge(self, kept: Kept) -> None:
        if kept.bytes <= self._warn_bytes and not kept.rank:
            self._told = None
        elif self._told is None or kept.rank > self._told.rank or kept.bytes >= 2 * max(self._told.bytes, 1):
            self._told = kept
            _log.warning(
                "the server keeps %s for slot %s: the job lags, or a transaction stays open;"
                " tidemark.wal.warn.bytes is %s",
                *(kept, self._slot, _size(self._warn_bytes)),
            )


def _size(count: int) -> str:
    return f"{count / _GIB:.1f} GiB" if count >= _GIB // 10 else f"{count / (1 << 20):.1f} MiB"
