"""What a snapshot has sent so far, range by range: how many rows, and the sum of their digests. Pure.

There are at most `MOST_RANGES` of them, so the state does not grow with the table: beyond that, each two
neighbours become one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_RANGES: Final = 64
MODULUS: Final = 1 << 128
"""Sums of digests are taken modulo this."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """When rows were sent: at which position of the stream, and what their window's snapshot could see.

    Both as the source writes them. `visible` is empty where the position says it all. `turn` is the turn of
    the READ events; 0 if an earlier release has saved this.
    """

    position: str = ""
    visible: str = ""
    turn: int = 0


@dataclass(frozen=True, slots=True)
class CertifiedRange:
    """Rows that were read within bounds, and those of them that were emitted.

    The bounds are as in `Range`. `sum` is that of the emitted rows' digests, in hexadecimal; None if they
    have none. `first` and `last` are the frontiers of the first and last window.
    """

    read: int
    emitted: int
    sum: str | None
    first: Frontier = Frontier()
    last: Frontier = Frontier()
    after: tuple[str | None, ...] | None = None
    upto: tuple[str | None, ...] | None = None
    holds_after: bool = False
    lacks_upto: bool = False

    def with_next(self, other: CertifiedRange) -> CertifiedRange:
        """This one and what was read behind it."""
        return CertifiedRange(
            self.read + other.read,
            self.emitted + other.emitted,
            sum_of((self, other)),
            self.first,
            other.last,
            self.after,
            other.upto,
            self.holds_after,
            other.lacks_upto,
        )


@dataclass(frozen=True, slots=True)
class CertifiedRanges:
    """All that was sent of a collection, under one `seed` in hexadecimal; `again` is what single keys got."""

    seed: str
    ranges: tuple[CertifiedRange, ...] = ()
    again: CertifiedRange | None = None

    @property
    def all(self) -> tuple[CertifiedRange, ...]:
        """The ranges, and what was read under single keys."""
        return self.ranges if self.again is None else (*self.ranges, self.again)

    @property
    def read(self) -> int:
        """How many rows were read."""
        return sum(part.read for part in self.all)

    @property
    def emitted(self) -> int:
        """How many of them were emitted."""
        return sum(part.emitted for part in self.all)

    def with_next(self, other: CertifiedRanges) -> CertifiedRanges:
        """These and what a later window sent. Under another seed, sums don't add up: only that is kept."""
        if other.seed != self.seed:
            return other
        ranges = (*self.ranges, *other.ranges)
        while len(ranges) > MOST_RANGES:
            ranges = _paired(ranges)
        parts = [part for part in (self.again, other.again) if part is not None]
        again = parts[0].with_next(parts[1]) if len(parts) > 1 else next(iter(parts), None)
        return CertifiedRanges(self.seed, ranges, again)


def sum_of(parts: Iterable[CertifiedRange]) -> str | None:
    """The sum of the sums, in hexadecimal; None if one is missing."""
    found = [part.sum for part in parts]
    sums = [int(text, 16) for text in found if text is not None]
    return shown(sum(sums) % MODULUS) if len(sums) == len(found) else None


def shown(digest_sum: int) -> str:
    """A sum in hexadecimal."""
    return f"{digest_sum:032x}"


def _paired(ranges: Sequence[CertifiedRange]) -> tuple[CertifiedRange, ...]:
    """Each two neighbours as one."""
    pairs = [ranges[at : at + 2] for at in range(0, len(ranges), 2)]
    return tuple(pair[0].with_next(pair[1]) if len(pair) > 1 else pair[0] for pair in pairs)
