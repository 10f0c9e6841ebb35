"""The progress log: one line per interval, built from what turns report.

Owns the figures and their wording. It has no clock: every observation carries its time.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.job.reports.observation import Observation
    from engine.snapshot.extent import Progress
    from engine.snapshot.queue_entry import Table

_log = logging.getLogger("engine")


@dataclass(frozen=True, slots=True)
class TableReport:
    """How far the current collection is: `fraction` 0 to 1, rows/s since it began, `eta_s` seconds left.

    `ordinal`: table n of m of the initial snapshot.
    """

    collection: str
    fraction: float
    rows: int
    estimated_rows: int
    rows_per_s: float
    eta_s: float | None
    queued: int
    ordinal: tuple[int, int] | None = None

    def __str__(self) -> str:
        eta = "unknown" if self.eta_s is None else duration(self.eta_s)
        more = f", {self.queued} more queued" if self.queued else ""
        rows = f"{self.rows:,} of about {self.estimated_rows:,} rows"
        speed = f"{self.rows_per_s:,.0f} rows/s, ETA {eta}"
        table = f"table {self.ordinal[0]} of {self.ordinal[1]}, " if self.ordinal else ""
        return f"{table}{self.collection} {100 * self.fraction:.1f}% ({rows}), {speed}{more}"


def table_report(tables: tuple[Table, ...], now_s: float) -> TableReport | None:
    """The report on the first collection that is not paused; None if it has not begun."""
    tables = tuple(table for table in tables if not table.paused)
    if not tables or tables[0].progress is None:
        return None
    table, progress = tables[0], tables[0].progress
    fraction = progress.fraction_read
    elapsed_s = max(now_s - progress.since_ms / 1000, 1e-3)
    return TableReport(
        collection=str(table.target.collection),
        fraction=fraction,
        rows=progress.rows,
        estimated_rows=_estimated(progress, fraction),
        rows_per_s=progress.rows / elapsed_s,
        eta_s=elapsed_s * (1 - fraction) / fraction if fraction > 0 else None,
        queued=len(tables) - 1,
        ordinal=table.ordinal,
    )


def resume_line(tables: tuple[Table, ...]) -> str | None:
    """The line that says where the queue's snapshots resume; None if the queue is empty."""
    if not tables:
        return None
    first, more = tables[0], f", and {len(tables) - 1} more are queued" if len(tables) > 1 else ""
    percent = 100 * first.progress.fraction_read if first.progress else 0.0
    does = "is paused" if first.paused else "goes on"
    return f"the snapshot of {first.target.collection} {does} at {percent:.0f} %{more}"


def _estimated(progress: Progress, fraction: float) -> int:
    """The rows in total: projected from the rows read, or the catalog's estimate before any are read."""
    return round(progress.rows / fraction) if fraction > 0 else progress.extent.asked_rows


def duration(seconds: float) -> str:
    """Seconds for people: 1h02m, 3m04s, 5s."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


IDLE_S: Final = 60.0
"""How often a job says that it has nothing to do."""


class ProgressLog:
    """Takes every observation, and logs a line once `interval_s` has passed and there is news.

    Without news it says so once a minute at most.
    """

    def __init__(self, interval_s: float, say: Callable[[str], None] | None = None) -> None:
        self._interval_s = interval_s
        self._say = say or (lambda line: _log.info("%s", line))
        self._since_s: float | None = None
        self._idle_s = self._told_s = 0.0
        self._events = 0

    def __call__(self, seen: Observation) -> None:
        """Count an observation's events, and log a line if one is due."""
        self._events += seen.events
        if self._since_s is None:
            self._since_s = self._idle_s = self._told_s = seen.clock_s
        elapsed_s = seen.clock_s - self._since_s
        if elapsed_s < self._interval_s:
            return
        report = table_report(seen.state.snapshot.tables, seen.now_s)
        if self._events or report:
            rate = self._events / elapsed_s
            stream = f"{self._events:,} events sent, {rate:,.0f} events/s, lag {seen.lag_s:.1f} s"
            self._say(f"snapshot of {report}; {stream}" if report else stream)
            self._idle_s = self._told_s = seen.clock_s
        elif seen.clock_s - self._told_s >= IDLE_S:
            self._say(f"idle for {duration(seen.clock_s - self._idle_s)}: nothing to send or to read")
            self._told_s = seen.clock_s
        self._since_s, self._events = seen.clock_s, 0
