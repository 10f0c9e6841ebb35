"""The windows in progress, in order: at most one being emitted, and one being read behind it.

Owns which windows there are, and how they end. `windows.py` says when one opens, waits and is emitted. It
has a drawing of two windows that overlap.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.job.parts import JobParts
    from engine.job.snapshots.opened_window import OpenedWindow
    from engine.job.snapshots.window_size import WindowSize
    from engine.model import Window
    from engine.ports.source import EncodingResult
    from engine.snapshot.extent import Advance
    from engine.snapshot.merge import SupersededKeys
    from engine.snapshot.queue_entry import Table

_AT_ONCE = 2
"""The most windows in progress: one being emitted, one being read."""


class WindowsInProgress:
    """The windows in progress, the one in front first. `size` is told when one is given up."""

    def __init__(self, job_parts: JobParts, size: WindowSize) -> None:
        self._parts, self._size = job_parts, size
        self.opened: list[OpenedWindow] = []

    # Questions.

    @property
    def front(self) -> OpenedWindow | None:
        """The window that waits for the stream or is being emitted, if any is in progress."""
        return self.opened[0] if self.opened else None

    @property
    def last(self) -> Window | None:
        """The window opened last, if any is in progress."""
        return self.opened[-1].window if self.opened else None

    @property
    def tickets(self) -> frozenset[int]:
        """The queue entries that they read."""
        return frozenset(run.ticket for opened in self.opened for run in opened.window.runs)

    @property
    def any_waits(self) -> bool:
        """Whether any window is read to its end and waits, for the stream or for its turn to be emitted."""
        return any(opened.staged is not None for opened in self.opened)

    @property
    def has_room(self) -> bool:
        """Whether another window may open: one at a time is read."""
        return len(self.opened) < _AT_ONCE and all(opened.staged is not None for opened in self.opened)

    def ahead(self) -> list[Advance]:
        """The progress that they will have made once all of them are emitted."""
        return [advance for opened in self.opened for advance in opened.ahead()]

    # Beginning and end.

    def add(self, opened: OpenedWindow) -> None:
        """Add a window behind the others."""
        self.opened.append(opened)

    def end_front(self) -> None:
        """Close the window in front, which is emitted."""
        self.opened.pop(0).reading.close()

    def close(self) -> None:
        """Give up all windows. Their rows will be read again."""
        self.give_up(0)

    def drop(self, tables: Sequence[Table]) -> None:
        """Give up the first window that reads one of these queue entries, and the window behind it."""
        tickets = {table.ticket for table in tables}
        self.give_up(next((at for at, opened in enumerate(self.opened) if opened.reads(tickets)), _AT_ONCE))

    def give_up(self, first: int) -> None:
        """Close this window and those behind it, which start where it would have ended."""
        self.opened, given_up = self.opened[:first], self.opened[first:]
        self._parts.tally.given_up += len(given_up)
        self.report()
        for opened in given_up:
            self._size.note_given_up(opened.window)
        with ExitStack() as closing:
            for opened in given_up:
                closing.callback(opened.reading.close)
                closing.callback(opened.beside.stop)

    def report(self) -> None:
        """Tell the tally which windows are in progress, and how much of them waits to be emitted."""
        waiting = sum(file.bytes for opened in self.opened for file in opened.waiting)
        self._parts.tally.note_windows([opened.window for opened in self.opened], waiting)

    # What is streamed meanwhile.

    def supersede(self, encoded: EncodingResult) -> None:
        """Add the keys that a span superseded to every window, and to single windows by id.

        The window behind may already contain an entry that is newer than the window in front. A source that
        can't tell counts it for both. That loses nothing, because the stream has carried the entry.
        """
        for opened in self.opened:
            opened.superseded |= _superseded_in(opened, encoded)

    def give_way(self, encoded: EncodingResult) -> None:
        """Wait until the sink has the rows on their way that a span touches.

        Raises SinkError or SourceError.
        """
        for opened in self.opened:
            opened.beside.wait_for(_superseded_in(opened, encoded))


def _superseded_in(opened: OpenedWindow, encoded: EncodingResult) -> SupersededKeys:
    """What a span superseded of a window's rows."""
    own = encoded.superseded_in.get(opened.window.id)
    return encoded.superseded if own is None else encoded.superseded | own
