"""The policy for windows whose rows can't be read: retry, split, give up. Pure.

A failed window is first retried as it was. Then its runs are read one at a time, and a run that fails alone
is cut smaller and smaller until the fault is narrowed down to one chunk. Only that chunk is given up. After
three such chunks in a row the chunks are not the cause, and the collection fails. After a window that went
well the next one may be larger again.

`YieldLimit` is the policy for windows that gave way to sessions which waited for their tables.
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
    """What to do next: read the window again, split it, give up its run, or give up its collection."""

    AGAIN = "again"
    SPLIT = "split"
    GIVE_UP_RUN = "give up run"
    GIVE_UP_COLLECTION = "give up collection"


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """What recent failures mean for the next window.

    `failures` counts failures of the same window. `rows` bounds a window (None: no bound). `given_up` counts
    the runs given up in a row. `suspects` are queue entries that failed together: until each has been read
    alone, no window takes more than one run.
    """

    failures: int = 0
    rows: int | None = None
    given_up: int = 0
    suspects: frozenset[int] = frozenset()

    def after_failure(
        self, window: Window, chunk_rows: int, retries: int, *, smaller: bool = False
    ) -> tuple[FailureRecord, Remedy]:
        """The record after a failed window, and what to do. A window is first retried `retries` times.

        `smaller`: the window took too long, so it is split without retries as long as it can be.
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

    def after_success(self, window: Window, usual_rows: int) -> FailureRecord:
        """The record after a window that went well. `usual_rows` is the size without any failures."""
        suspects = self._less(window)
        rows = None if self.rows is None else min(usual_rows, self.rows * _LARGER)
        return FailureRecord(rows=None if rows == usual_rows and not suspects else rows, suspects=suspects)

    def _less(self, window: Window) -> frozenset[int]:
        return self.suspects.difference(run.ticket for run in window.runs)


@dataclass(frozen=True, slots=True)
class YieldLimit:
    """How many rows a window may hold after windows gave way to sessions that waited for their tables.

    After each such window the next one holds half as much, down to a chunk. After a window that went well the
    next one holds a quarter more. `rows` is the bound (None: no bound). `in_vain` counts, in a row, windows
    that gave way although they could not be smaller. The table is then needed too often to be read at all.
    """

    rows: int | None = None
    in_vain: int = 0

    def after_yield(self, window: Window, chunk_rows: int) -> YieldLimit:
        """The bound after a window that gave way."""
        chunks = sum(run.chunks for run in window.runs)
        first = window.runs[0]
        whole = first.after is None and first.upto is None
        least = len(window.runs) == 1 and (chunks <= 1 or whole)
        return YieldLimit(max(chunk_rows, chunks * chunk_rows // 2), self.in_vain + 1 if least else 0)

    def after_success(self, usual_rows: int) -> YieldLimit:
        """The bound after a window that was read. `usual_rows` is the size without waiting sessions."""
        rows = None if self.rows is None else self.rows + max(1, self.rows // _GROWS)
        return YieldLimit(None if rows is None or rows >= usual_rows else rows)

    def least(self, rows: int) -> int:
        """`rows`, or the bound if that is less."""
        return rows if self.rows is None else min(self.rows, rows)

    @property
    def hopeless(self) -> bool:
        """Whether to give the table up."""
        return self.in_vain >= _IN_VAIN
