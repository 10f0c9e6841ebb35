"""Who waits before windows open: all windows, or single collections that are busy or rest."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.errors import LoginRefused, SinkError, TableBusy
    from engine.job.parts import Pace
    from engine.snapshot.queue import Snapshot
    from engine.snapshot.queue_entry import Table

_log = logging.getLogger("engine")
_LAG_TOLD_AFTER_S = 2.0
_ASIDE = 4
"""How long a busy collection is left alone, as a multiple of `backoff_s`."""


class Pauses:
    """Until when windows and collections wait. `clock` counts seconds and never goes back."""

    def __init__(self, pace: Pace, clock: Callable[[], float]) -> None:
        self._pace, self._clock = pace, clock
        self._until_s = 0.0
        self._held_up = 0
        self._lagging_since_s: float | None = None
        self._lag_told = False
        self._busy: dict[int, str] = {}
        self._aside: dict[int, float] = {}
        self._resting: dict[int, float] = {}

    # All windows.

    def waits(self, now_s: float) -> bool:
        """Whether no window may open yet."""
        return now_s < self._until_s

    def begin(self, seconds: float) -> None:
        """Open no window for this long."""
        self._until_s = self._clock() + seconds

    def give_way(self) -> None:
        """Open no window for `backoff_s`, so that sessions that wait for the tables go first."""
        self.begin(self._pace.backoff_s)

    def hold_up(self, error: SinkError | LoginRefused) -> None:
        """Wait for room to stage rows, or for a valid credential, longer each time. No row is left out."""
        self._held_up += 1
        pause_s = self._pace.pause_s(self._held_up)
        self.begin(pause_s)
        _log.warning("%s; the window is read again in %.1f s", error, pause_s)

    def note_success(self) -> None:
        """Note that a window was read."""
        self._held_up = 0

    def note_lag(self, lag_s: float, now_s: float) -> None:
        """Open no window for a second if the stream lags too much. Logged once, after 2 s."""
        if lag_s <= self._pace.max_lag_s:
            self._lagging_since_s = None
            return
        if self._lagging_since_s is None:
            self._lagging_since_s, self._lag_told = now_s, False
        if not self._lag_told and now_s - self._lagging_since_s > _LAG_TOLD_AFTER_S:
            self._lag_told = True
            _log.info(
                "no window opens while the stream lags %.1f s; tidemark.max.lag.ms allows %d ms",
                lag_s,
                round(1000 * self._pace.max_lag_s),
            )
        self._until_s = now_s + 1.0

    # Single collections.

    def rest(self, table: Table) -> None:
        """Pause a collection whose last rows changed while they were read again, longer each time."""
        rounds = table.progress.rounds if table.progress else 1
        self._resting[table.ticket] = self._clock() + self._pace.pause_s(rounds)

    def leave_alone(self, tables: Iterable[Table], now_s: float) -> None:
        """Read others before these busy collections, for a while."""
        self._aside |= {table.ticket: now_s + _ASIDE * self._pace.backoff_s for table in tables}

    def is_left_alone(self, table: Table, now_s: float) -> bool:
        """Whether others are read before this collection."""
        return now_s < self._aside.get(table.ticket, now_s)

    def note_busy(self, ticket: int, error: TableBusy) -> None:
        """Log why a collection is kept waiting, once per reason."""
        if self._busy.get(ticket) != str(error):
            _log.warning("no window opens yet: %s", error)
        self._busy[ticket] = str(error)

    def free(self, snapshot: Snapshot, limited: Callable[[Table, float], bool]) -> Snapshot:
        """The queue without what rests or is `limited`, and without what is busy while others can be read."""
        now_s, stage = self._clock(), snapshot.tables[0].stage if snapshot.tables else None
        self._resting = {ticket: until_s for ticket, until_s in self._resting.items() if until_s > now_s}
        snapshot = snapshot.without(
            table for table in snapshot.tables if table.ticket in self._resting or limited(table, now_s)
        )
        if not snapshot.tables or snapshot.tables[0].stage != stage:
            return replace(snapshot, tables=())
        self._aside = {ticket: until_s for ticket, until_s in self._aside.items() if until_s > now_s}
        free = snapshot.without(table for table in snapshot.tables if table.ticket in self._aside)
        if free.tables and free.tables[0].stage == snapshot.tables[0].stage:
            return free
        if not self._aside:
            return snapshot
        self._aside = {}
        self._until_s = now_s + self._pace.backoff_s
        return replace(snapshot, tables=())
