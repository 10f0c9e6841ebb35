"""What the demo shows: lines of what happens, and how far the snapshot is.

On a terminal the progress is one table that is drawn anew; elsewhere it is a line a second.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from engine.job.progress_log import TableReport

_LINE_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Progress:
    """A moment of the demo; `report` None while no table is being read."""

    report: TableReport | None
    lag_s: float
    written: int
    units: str = "rows"

    def __str__(self) -> str:
        what = "waiting for the first window" if self.report is None else str(self.report)
        return f"  {what}; lag {self.lag_s:.1f} s, {self.written:,} {self.units} written meanwhile"


class Display:
    """Says lines; within its context it also shows progress."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._live: Live | None = None
        self._said_s = 0.0
        self._since_s = time.monotonic()

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, text: str) -> None:
        """One line, with the seconds since the demo began."""
        self._console.print(Text(f"[{time.monotonic() - self._since_s:5.1f} s] {text}"))

    def end(self, text: str) -> None:
        """The last line, bare."""
        self._console.print(Text(text))

    def show(self, progress: Progress) -> None:
        """Draw the progress, or say it when a second has passed."""
        if self._live is not None:
            self._live.update(_drawn(progress), refresh=True)
        elif time.monotonic() - self._said_s >= _LINE_EVERY_S:
            self._said_s = time.monotonic()
            self._console.print(Text(str(progress)))


def _drawn(progress: Progress) -> Table:
    table = Table("table", "read", units := progress.units, f"{units}/s", "ETA", "lag", "written meanwhile")
    report = progress.report
    cells = ("waiting for the first window", "", "", "", "")
    if report is not None:
        eta = "?" if report.eta_s is None else f"{report.eta_s:.0f} s"
        rows, speed = f"{report.rows:,}", f"{report.rows_per_s:,.0f}"
        cells = (report.collection, f"{100 * report.fraction:.1f}%", rows, speed, eta)
    table.add_row(*cells, f"{progress.lag_s:.1f} s", f"{progress.written:,}")
    return table
