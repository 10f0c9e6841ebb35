"""Which transactions a PostgreSQL snapshot shows, and which streamed ones it does not show yet.

Parses `pg_current_snapshot()`, widens pgoutput's 32-bit transaction ids, and does page-header arithmetic on
LSNs. Pure; `watermark.py` takes the snapshots.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_CYCLE = 1 << 32
FIRST_XID = 3
"""Smaller ids stand for transactions that precede all others."""
_SHORT_PAGE_HEADER = 24
_LONG_PAGE_HEADER = 40


@dataclass(frozen=True, slots=True)
class Visibility:
    """A snapshot `xmin:xmax:xip`.

    Ids below xmin are visible, ids from xmax on are not, xip are in progress.
    """

    xmin: int
    xmax: int
    in_progress: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def parse(cls, text: str) -> Visibility:
        """Parse the text of a `pg_snapshot`, with 64-bit ids."""
        xmin, xmax, listed = text.split(":")
        ids = [int(xid) for xid in listed.split(",")] if listed else []
        return cls(int(xmin), int(xmax), np.array(sorted(ids), np.int64))

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, self.in_progress.tolist()))}"

    def widen(self, xids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give 32-bit ids their epoch: the congruent value nearest to xmax.

        A transaction in the log is never 2³¹ away from a live snapshot, because PostgreSQL forbids
        comparisons over that distance. The snapshot's own epoch would be wrong around a wrap.
        """
        distance = (xids.astype(np.int64) - self.xmax + _CYCLE // 2) % _CYCLE - _CYCLE // 2
        return np.asarray(self.xmax + distance, np.int64)

    def shows(self, xids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the snapshot contains the changes of committed transactions, given by 32-bit ids."""
        wide = self.widen(xids)
        shown = wide < self.xmax
        if self.in_progress.size:
            shown &= (wide < self.xmin) | ~np.isin(wide, self.in_progress)
        return np.asarray(shown, np.bool_)

    def missing(self, xids: Iterable[int]) -> frozenset[int]:
        """Those of `xids` (32-bit) that the snapshot does not show."""
        ids = np.fromiter(xids, np.int64)
        return frozenset(int(xid) for xid in ids[~self.shows(ids)])

    def shows_all(self, other: Visibility) -> bool:
        """Whether the snapshot shows whatever another one shows.

        A committed transaction that is not visible yet may have the newest id of all. It is then beyond xmax,
        and not among those in progress.
        """
        beyond = np.arange(self.xmax, other.xmax, dtype=np.int64)
        return not other.shows(np.concatenate([self.in_progress, beyond])).any()


def normalised(lsn: int, segment_bytes: int, page_bytes: int) -> int:
    """Move an insert position right after a page header back to the page's start.

    `pg_current_wal_insert_lsn()` counts the header of a page that has no record yet. No record ever ends
    there, so the stream would reach that position only with the next record.
    """
    if lsn % segment_bytes == _LONG_PAGE_HEADER:
        return lsn - _LONG_PAGE_HEADER
    if lsn % page_bytes == _SHORT_PAGE_HEADER:
        return lsn - _SHORT_PAGE_HEADER
    return lsn


def parse_lsn(text: str) -> int:
    """`16/B374D848` as a number."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def format_lsn(lsn: int) -> str:
    """A number as `16/B374D848`."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
