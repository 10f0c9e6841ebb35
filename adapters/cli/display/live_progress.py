"""How `tidemark run` shows the progress of snapshots: bars below the log on a terminal, else its lines."""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console

from adapters.embedding.progress_bars import showing
from adapters.source.assembly.supplied import NOBODY, Onlookers
from engine.job.reports.progress_log import ProgressLog
from engine.job.saved.overview import of_entries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adapters.embedding.progress_bars import Bars
    from engine.config import Settings
    from engine.job.reports.observation import Observation

_log = logging.getLogger("engine")
_DRAW_EVERY_S: Final = 0.25
_RATE_OVER_S: Final = 1.0
_MOST: Final = 200
"""How many queued collections are looked up for each drawing."""


@contextmanager
def onlookers_for(settings: Settings, *, drawn: bool) -> Iterator[Onlookers]:
    """Who takes a job's observations: bars if they may be `drawn` and stderr is a terminal, else the log."""
    console = Console(file=sys.stderr, soft_wrap=True, highlight=False)
    if not (drawn and console.is_terminal):
        yield NOBODY
        return
    live = LiveProgress(console, settings.job.progress_interval_ms / 1000)
    try:
        yield Onlookers(observe=live)
    finally:
        live.close()


class LiveProgress:
    """Takes every observation: draws bars while something is read, and leaves the rest to the log."""

    def __init__(self, console: Console, interval_s: float) -> None:
        self._console, self._shown = console, ExitStack()
        self._bars: Bars | None = None
        self._log = ProgressLog(interval_s, self._say)
        self._drawn_s = self._since_s = float("-inf")
        self._events, self._rate = 0, 0.0

    def __call__(self, seen: Observation) -> None:
        """Draw what a turn has changed, a few times per second at most."""
        tables = seen.state.snapshot.tables
        if not tables:
            self.close()
        self._log(seen)
        self._events += seen.events
        if tables and seen.clock_s - self._drawn_s >= _DRAW_EVERY_S:
            self._drawn_s = seen.clock_s
            self._opened().draw(of_entries(tables[:_MOST], seen.now_s), self._note(seen))

    def _say(self, line: str) -> None:
        """Log a line of progress, unless the bars show it."""
        if self._bars is None:
            _log.info("%s", line)

    def _opened(self) -> Bars:
        if self._bars is None:
            self._bars = self._shown.enter_context(showing(self._console))
            self._console.show_cursor()  # it stays visible if the process is killed
        return self._bars

    def _note(self, seen: Observation) -> str:
        elapsed_s = seen.clock_s - self._since_s
        if elapsed_s >= _RATE_OVER_S:
            self._rate = self._events / elapsed_s
            self._since_s, self._events = seen.clock_s, 0
        return f"{self._rate:,.0f} events/s, lag {seen.lag_s:.1f} s"

    def close(self) -> None:
        """Remove the bars."""
        self._bars = None
        self._shown.close()
