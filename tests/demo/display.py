"""What the demo shows: lines of what happens, and how far the snapshot is.

On a terminal the progress is a live table with a bar for each collection, elsewhere a line for each quarter.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.text import Text

from adapters.embedding.progress_bars import showing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.embedding.progress_bars import Bars
    from engine.job.saved.overview import CollectionOverview


class Display:
    """Says lines; within its context it also shows progress."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._shown = ExitStack()
        self._bars: Bars | None = None
        self._since_s = time.monotonic()

    def __enter__(self) -> Self:
        self._bars = self._shown.enter_context(showing(self._console))
        return self

    def __exit__(self, *_raised: object) -> None:
        self._bars = None
        self._shown.close()

    def say(self, text: str) -> None:
        """One line, with the seconds since the demo began."""
        self._console.print(Text(f"[{time.monotonic() - self._since_s:5.1f} s] {text}"))

    def end(self, text: str) -> None:
        """The last line, bare."""
        self._console.print(Text(text))

    def show(self, snapshots: Sequence[CollectionOverview], note: str) -> None:
        """Show how far the snapshots are, and a note below."""
        if self._bars is not None:
            self._bars.draw(snapshots, note)
