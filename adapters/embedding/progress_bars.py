"""Draws the progress of snapshots: a bar per collection on a terminal or in a notebook, elsewhere lines."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from engine.job.reports.progress_log import duration
from engine.job.saved.overview import Stage
from engine.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from engine.job.saved.overview import CollectionOverview

MOST_DRAWN: Final = 12
"""How many bars are drawn; the others are counted."""
_LINE_EVERY_PERCENT: Final = 25.0
_BAR_WIDTH: Final = 30


class Bars(Protocol):
    """Shows how far snapshots are."""

    def draw(self, snapshots: Sequence[CollectionOverview], note: str = "") -> None:
        """Show them as they are now, and a note below."""

    def say(self, text: str) -> None:
        """Show a line that stays."""


@contextmanager
def showing(console: Console | None = None) -> Iterator[Bars]:
    """The bars that fit the console; they vanish at the end."""
    console = console or Console(soft_wrap=True, highlight=False)
    if not (console.is_terminal or console.is_jupyter):
        yield PlainProgress(console)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield LiveBars(live)


class LiveBars:
    """A bar per collection, drawn anew each time."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def draw(self, snapshots: Sequence[CollectionOverview], note: str = "") -> None:
        """Draw the bars in place of those before."""
        self._live.update(drawn(snapshots, note), refresh=True)

    def say(self, text: str) -> None:
        """A line above the bars."""
        self._live.console.print(Text(printable(text)))


class PlainProgress:
    """A line per collection whenever another quarter of it is read."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said: dict[str, float] = {}

    def draw(self, snapshots: Sequence[CollectionOverview], note: str = "") -> None:
        """Say what has advanced by a quarter."""
        for snapshot in snapshots:
            step = snapshot.percent // _LINE_EVERY_PERCENT
            if snapshot.stage is Stage.READING and self._said.get(snapshot.collection) != step:
                self._said[snapshot.collection] = step
                more = f"; {note}" if note else ""
                self.say(f"{snapshot.collection} {snapshot.percent:.1f}%, {_pace(snapshot)}{more}")

    def say(self, text: str) -> None:
        """A line."""
        self._console.print(Text(printable(text)))


def drawn(snapshots: Sequence[CollectionOverview], note: str = "") -> RenderableType:
    """A bar for each snapshot that is read or waits, those being read first, and the note."""
    wanted = [snapshot for snapshot in snapshots if snapshot.stage is not Stage.FAILED]
    wanted.sort(key=lambda snapshot: snapshot.stage is not Stage.READING)
    grid = Table.grid(padding=(0, 1))
    for snapshot in wanted[:MOST_DRAWN]:
        bar = ProgressBar(total=100, completed=snapshot.percent, width=_BAR_WIDTH)
        # a str would be read as markup
        grid.add_row(
            Text(printable(snapshot.collection)),
            bar,
            Text(f"{snapshot.percent:.0f}%", justify="right"),
            Text(_pace(snapshot)),
        )
    more = len(wanted) - MOST_DRAWN
    below = [Text(f"and {more} more collections")] if more > 0 else []
    below += [Text(printable(note))] if note else []
    return Group(grid, *below)


def _pace(snapshot: CollectionOverview) -> str:
    if snapshot.stage is not Stage.READING:
        return str(snapshot.stage)
    rate = "" if snapshot.rows_per_s is None else f", {snapshot.rows_per_s:,.0f} rows/s"
    left = "" if snapshot.eta_s is None else f", {duration(snapshot.eta_s)} to go"
    return f"{snapshot.rows:,} rows{rate}{left}"
