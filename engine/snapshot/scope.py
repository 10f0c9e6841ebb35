"""The scope of a snapshot that reads only some rows: from what a signal gives to what is read. Pure.

A source says how its database writes the signal's keys, and in which order they come: it gives each a *rank*,
equal for equal keys. With the ranks the given stretches become ranges that do not overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from engine.errors import SignalError
from engine.model import Range
from engine.snapshot.extent import ScopeExtent, integers_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.model import Key, Scope


@dataclass(frozen=True, slots=True)
class RankedKey:
    """A key as the database writes it, and its place among the keys that were ranked with it."""

    key: Key
    rank: int


_Ends = tuple["RankedKey | None", "RankedKey | None"]


def ranges_of(
    scope: Scope, ranked: Sequence[RankedKey], greatest: Key | None, last: int | None = None
) -> tuple[Range, ...]:
    """The ranges of a scope's stretches, disjoint and in order.

    `ranked` are the bounds that the stretches have, in order. A stretch without an end ends with the greatest
    key. Behind that (if its rank `last` is known) and in an empty collection it ends where it starts: only a
    window can tell as of when nothing is there. Raises SignalError for one that can't hold a key.
    """
    left = list(ranked)
    ends = [
        (left.pop(0) if part.start is not None else None, left.pop(0) if part.end is not None else None)
        for part in scope.stretches
    ]
    for number, (start, end) in enumerate(ends, 1):
        if start is not None and end is not None and start.rank >= end.rank:
            raise SignalError(f"entry {number} of 'ranges' is empty: its 'from' is not before its 'to'")
    merged: list[_Ends] = []
    for start, end in sorted(ends, key=lambda pair: -1 if pair[0] is None else pair[0].rank):
        if merged and _meets(merged[-1][1], start):
            merged[-1] = merged[-1][0], _later(merged[-1][1], end)
        else:
            merged.append((start, end))
    return tuple(
        _range(start, end, None if last is not None and start and start.rank > last else greatest)
        for start, end in merged
    )


@dataclass(frozen=True, slots=True)
class ScopedCollection:
    """The collection that a scope is a part of: about `rows` rows, its greatest key, its dense span.

    `last` is the greatest key's rank, if it was ranked with the scope's bounds.
    """

    rows: int
    greatest: Key | None
    span: tuple[int, int] | None = None
    last: int | None = None

    def at(self, points: Sequence[Key]) -> ScopeExtent:
        """The part under single keys."""
        return ScopeExtent(len(points), points=tuple(points))

    def inside(self, scope: Scope, ranked: Sequence[RankedKey]) -> ScopeExtent:
        """The part in the scope's ranges, whose rows are estimated where the keys are dense integers."""
        ranges = ranges_of(scope, ranked, self.greatest, self.last)
        if self.span is None:
            return ScopeExtent(self.rows, ranges)
        ends = [integers_in(part, self.span) for part in ranges]
        width = sum(max(0, end - start) for start, end in ends)
        return ScopeExtent(ceil(self.rows * width / (self.span[1] - self.span[0] + 1)), ranges)


def _meets(end: RankedKey | None, start: RankedKey | None) -> bool:
    """Whether a stretch begins before another one ends, or right there."""
    return end is None or start is None or start.rank <= end.rank


def _later(end: RankedKey | None, other: RankedKey | None) -> RankedKey | None:
    if end is None or other is None:
        return None
    return max(end, other, key=lambda bound: bound.rank)


def _range(start: RankedKey | None, end: RankedKey | None, greatest: Key | None) -> Range:
    first = None if start is None else start.key
    if end is not None:
        return Range(first, end.key, holds_after=start is not None, lacks_upto=True)
    if greatest is None:
        return Range(first, first, holds_after=start is not None, lacks_upto=start is not None)
    return Range(first, greatest, holds_after=start is not None)
