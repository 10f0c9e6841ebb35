"""What is done about a window whose rows can't be read: tried again, split, given up. Pure.

Beside it, what is done about windows that let others through to their tables: see `Yielding`.

A window is tried again some times, as it was. Then its runs are read one at a time, and one that fails
alone is cut smaller and smaller, so that the fault is found within a chunk; only that chunk is given
up. When several chunks in a row are given up, the fault is no chunk's, and its collection fails. Once
a window goes well the next may be larger again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.model import Window

_GROWS, _IN_VAIN = 4, 10

_SMALLER, _LARGER = 8, 4
_GIVEN_UP_IN_A_ROW = 3


class Remedy(StrEnum):
    """What to do next: read the window again, read less at once, give up its run, or its collection."""

    AGAIN = "again"
    SPLIT = "split"
    GIVE_UP_RUN = "give up run"
    GIVE_UP_COLLECTION = "give up collection"


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """Failures of the same window, rows that a run may read (None: no bound), runs given up in a row.

    `suspects` are entries of the queue that failed together: until each has been read alone, no window
    takes several.
    """

    failures: int = 0
    rows: int | None = None
    given_up: int = 0
    suspects: frozenset[int] = frozenset()

    def failed(
        self, window: Window, chunk_rows: int, retries: int, *, smaller: bool = False
    ) -> tuple[FailureRecord, Remedy]:
        """After a failure of a window; each is tried `retries` times more before anything else is done.

        With `smaller` it took too long: as long as less can be read at once, that is done first.
        """
        chunks = max(run.chunks for run in window.runs)
        several = len(window.runs) > 1
        smallest = not several and chunks <= 1
        if self.failures < retries and (smallest or (self.rows is None and not smaller)):
            return replace(self, failures=self.failures + 1), Remedy.AGAIN
        if smallest:
            given_up = self.given_up + 1
            remedy = Remedy.GIVE_UP_RUN if given_up < _GIVEN_UP_IN_A_ROW else Remedy.GIVE_UP_COLLECTION
            given_up %= _GIVEN_UP_IN_A_ROW
            return FailureRecord(rows=chunk_rows, given_up=given_up, suspects=self._less(window)), remedy
        suspects = frozenset(run.ticket for run in window.runs) if several else self.suspects
        rows = max(chunk_rows, chunks * chunk_rows // (1 if several else _SMALLER))
        return FailureRecord(rows=rows, given_up=self.given_up, suspects=suspects), Remedy.SPLIT

    def mended(self, window: Window, usual_rows: int) -> FailureRecord:
        """After a window that went well; `usual_rows` is what one reads without trouble."""
        suspects = self._less(window)
        rows = None if self.rows is None else min(usual_rows, self.rows * _LARGER)
        return FailureRecord(rows=None if rows == usual_rows and not suspects else rows, suspects=suspects)

    def _less(self, window: Window) -> frozenset[int]:
        return self.suspects.difference(run.ticket for run in window.runs)


@dataclass(frozen=True, slots=True)
class Yielding:
    """How much windows hold that gave way to sessions which waited for their tables.

    Each time the next window holds half as much, down to a chunk; one that goes well lets the next one hold a
    quarter more. `rows` bounds it, None: nothing does. `in_vain` says how often in a row a window gave way
    that can't be smaller: whoever asks for a table so often leaves no time to read any of it.
    """

    rows: int | None = None
    in_vain: int = 0

    def gave_way(self, window: Window, chunk_rows: int) -> Yielding:
        """After a window that gave way."""
        chunks = sum(run.chunks for run in window.runs)
        first = window.runs[0]
        whole = first.after is None and first.upto is None
        least = len(window.runs) == 1 and (chunks <= 1 or whole)
        return Yielding(max(chunk_rows, chunks * chunk_rows // 2), self.in_vain + 1 if least else 0)

    def went_well(self, usual_rows: int) -> Yielding:
        """After a window that was read; `usual_rows` is what one holds that nobody waits for."""
        rows = None if self.rows is None else self.rows + max(1, self.rows // _GROWS)
        return Yielding(None if rows is None or rows >= usual_rows else rows)

    def least(self, rows: int) -> int:
        """How many rows a window may hold that would have so many."""
        return rows if self.rows is None else min(self.rows, rows)

    @property
    def hopeless(self) -> bool:
        """Whether it is no use to try on."""
        return self.in_vain >= _IN_VAIN
