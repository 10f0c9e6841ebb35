"""One collection's snapshot: its extent, what is left to read, and what could not be read. Pure.

A window's work comes in as an `Advance`; a new `Progress` comes out. `queue.py` has the queue of collections.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.errors import InvariantError
from engine.model import Key, Range, Target
from engine.verify.certified_ranges import CertifiedRanges  # noqa: TC001  msgspec reads it
from engine.verify.saved_course import SavedCourse  # noqa: TC001  msgspec reads it

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.model import Run

WHOLE_BYTES = 1 << 20
"""Up to so many bytes a collection is read whole, without bounds."""
_DENSE = 0.2
"""The least share of the integers between the least and the greatest key that are keys of rows."""
_REMEMBERED_KEYS = 10_000
"""How many keys are remembered of a collection that failed."""
_STAGED_BYTES = 1024
"""How much larger a staged row may be than in the table: field names, and its key twice."""


@dataclass(frozen=True, slots=True)
class ScopeExtent:
    """The part of a collection that a signal asks for: about `rows` rows, in `ranges` or at `points`.

    Bounds and points are keys as the database writes them. The ranges are disjoint and in order.
    """

    rows: int
    ranges: tuple[Range, ...] = ()
    points: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True)
class Extent:
    """What was measured of a collection when its snapshot began.

    - `rows` and `bytes` are the database's estimates.
    - A `whole` collection is small enough for one run without bounds.
    - Otherwise `greatest` is the greatest key at that time, None for an empty collection.
    - `span` is the least and greatest value of a single, densely used integer key.
    - `key` identifies the key that the bounds belong to, in the source's own format.
    - `as_of` is a position in the log. Measuring and all later reads see the changes up to it. Empty if the
      source does not give one.
    - `scoped` is set if not all of it is to be read.
    - `schema` is a digest of the columns' names and types, in their order; empty if the source has no schema.
    """

    rows: int
    bytes: int
    whole: bool = False
    greatest: Key | None = None
    span: tuple[int, int] | None = None
    key: tuple[str, ...] = ()
    as_of: tuple[int, ...] = ()
    scoped: ScopeExtent | None = None
    schema: str = ""

    @property
    def asked_rows(self) -> int:
        """The estimate of the rows to read."""
        return self.rows if self.scoped is None else self.scoped.rows

    @property
    def asked_bytes(self) -> int:
        """The estimate of their bytes."""
        return self.bytes * self.asked_rows // max(self.rows, 1) if self.scoped else self.bytes

    @property
    def row_bytes(self) -> float:
        """The estimated size of a row."""
        return self.bytes / max(self.rows, 1)

    @property
    def ranges(self) -> tuple[Range, ...]:
        """All ranges to read."""
        if self.scoped is not None:
            return self.scoped.ranges
        if self.whole:
            return (Range(),)
        return () if self.greatest is None else (Range(None, self.greatest),)

    def begun(self, now_ms: int) -> Progress:
        """The progress of a collection of which nothing is read yet.

        An empty collection is read whole: only a window tells when the stream has passed what emptied it.
        """
        if self.scoped is None:
            extent = self if self.ranges else replace(self, whole=True)
            return Progress(extent, now_ms, extent.ranges)
        # What is left says which points there are.
        kept = replace(self, scoped=replace(self.scoped, points=()))
        return Progress(kept, now_ms, self.ranges, points=self.scoped.points)


def dense_span(least: Key | None, greatest: Key, rows: int) -> tuple[int, int] | None:
    """The least and greatest value of a single integer key, if so many rows use it densely.

    The two may be of different moments: where the last rows went in between, the least is above the greatest.
    """
    if least is None or least[0] is None or greatest[0] is None:
        return None
    low, high = int(least[0]), int(greatest[0])
    return (low, high) if low <= high and rows >= _DENSE * (high - low + 1) else None


def integers_in(part: Range, span: tuple[int, int]) -> tuple[int, int]:
    """A range of a single integer key as integers, as far as there are keys: `(start, end]`."""
    start = span[0] - 1 if part.after is None else _integer(part.after) - part.holds_after
    end = span[1] if part.upto is None else _integer(part.upto) - part.lacks_upto
    return max(start, span[0] - 1), min(end, span[1])


def _integer(key: Key) -> int:
    (text,) = key
    return int(text or 0)


@dataclass(frozen=True, slots=True)
class Gap:
    """Rows that could not be read, of a range, under merge `keys` or at `points`, and the reason in words."""

    range: Range | None
    keys: tuple[Key, ...] = ()
    why: str = ""
    points: tuple[Key, ...] = ()

    def __str__(self) -> str:
        if self.points:
            return f"{len(self.points)} of the keys asked for"
        if self.range is None:
            return f"{len(self.keys)} rows under single keys"
        after, upto = (_shown(key) for key in (self.range.after, self.range.upto))
        begin = None if after is None else f"{'from' if self.range.holds_after else 'after'} {after}"
        end = None if upto is None else f"{'before' if self.range.lacks_upto else 'up to'} {upto}"
        parts = [part for part in (begin, end) if part is not None]
        return " ".join(["keys", *parts]) if parts else "everything"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a collection has been read: `left` holds the unread ranges, in order.

    `rows` counts the rows read, `emitted` the READ events that survived; `since_ms` is when reading began.
    `reread` holds the keys to read again: rows whose newest image in the log lacks a value that was never
    sent. `rounds` counts the windows that did not reduce them. `missing` could not be read. `points` are
    unread keys that a signal asked for; `found` counts the rows read at such keys. `certified` is what its
    certificate will say, `noted` what a verification has noted of these rows.
    """

    extent: Extent
    since_ms: int
    left: tuple[Range, ...]
    rows: int = 0
    emitted: int = 0
    chunks: int = 0
    reread: tuple[Key, ...] = ()
    rounds: int = 0
    missing: tuple[Gap, ...] = ()
    points: tuple[Key, ...] = ()
    found: int = 0
    certified: CertifiedRanges | None = None
    noted: SavedCourse | None = None

    @property
    def done(self) -> bool:
        """Whether nothing is left to read."""
        return not self.left and not self.reread and not self.points

    @property
    def untouched(self) -> bool:
        """Whether no window has read any of it. Rows may have moved."""
        return self == Progress(
            self.extent, self.since_ms, self.extent.ranges, reread=self.reread, points=self.points
        )

    @property
    def lacks(self) -> tuple[Gap, ...]:
        """What would be missing if the snapshot ended now."""
        left = tuple(Gap(unread) for unread in self.left)
        points = (Gap(None, points=self.points),) if self.points else ()
        return self.missing + left + points + ((Gap(None, self.reread),) if self.reread else ())

    def failed(self, target: Target) -> FailedSnapshot:
        """What a snapshot of this target lacks if it fails now.

        If no window has advanced it, its bounds are not remembered. A server that was restored since may have
        other rows (`restarts.restart_unread`).
        """
        gaps = (Gap(Range()),) if self.untouched and self.left else self.lacks
        return FailedSnapshot(target, self.extent.key, gaps)

    @property
    def fraction_read(self) -> float:
        """How much of a collection is read, from 0 to 1. An estimate unless the key is an integer."""
        extent = self.extent
        if extent.scoped is not None and self.points:
            return min(1.0, max(0.0, 1 - len(self.points) / max(1, extent.scoped.rows)))
        if not self.left:
            return 1.0
        if extent.span is not None:
            left, all_ = (_width(ranges, extent.span) for ranges in (self.left, extent.ranges))
            return min(1.0, max(0.0, 1 - left / max(1, all_)))
        return min(1.0, self.rows / max(1, extent.asked_rows))


def _width(ranges: Sequence[Range], span: tuple[int, int]) -> int:
    """How many integers are in ranges."""
    ends = [integers_in(part, span) for part in ranges]
    return sum(max(0, end - start) for start, end in ends)


@dataclass(frozen=True, slots=True)
class FailedSnapshot:
    """What a failed snapshot lacks. The bounds belong to `key` (`Extent.key`)."""

    target: Target
    key: tuple[str, ...]
    gaps: tuple[Gap, ...]

    def with_keys(self, keys: frozenset[Key]) -> FailedSnapshot:
        """Add rows that may have moved out of a gap and lack a value that nobody has sent.

        If they become too many to remember, the whole collection counts as lacking.
        """
        known = {key for gap in self.gaps for key in gap.keys}
        new = keys - known
        if not new or self.all:
            return self
        if len(known) + len(new) > _REMEMBERED_KEYS:
            return replace(self, gaps=(Gap(Range()),))
        return replace(self, gaps=(*self.gaps, Gap(None, tuple(sorted(new, key=str)))))

    @property
    def all(self) -> bool:
        """Whether everything must be read."""
        return any(gap.range and gap.range.upto is None for gap in self.gaps)

    def progress(self, extent: Extent, now_ms: int) -> Progress:
        """The progress that reads the gaps, or everything if the bounds no longer fit the table's key.

        What was read before the failure is as of nobody knows when. So no later replacement of the collection
        counts as seen (`Extent.as_of`).
        """
        ranges = tuple(gap.range for gap in self.gaps if gap.range)
        if extent.whole or extent.key != self.key or self.all:
            return extent.begun(now_ms)
        keys = tuple(key for gap in self.gaps for key in gap.keys)
        points = tuple(key for gap in self.gaps for key in gap.points)
        begun = replace(extent, as_of=()).begun(now_ms)
        return replace(begun, left=ranges, reread=keys, points=points)


@dataclass(frozen=True, slots=True)
class Advance:
    """What one window did for one entry of the queue.

    Its `runs` were read, or given up for the reason in `why`. Rows under the keys in `lacking` must be read
    again. `bytes` is the staged size of the rows read. `uncounted`: it read keys again while the change that
    had superseded them was still invisible to it, so it does not count as a round. `certified` is what it
    sent, `noted` all that a verification has noted with it; None: the next session can't go on with that.
    """

    ticket: int
    runs: tuple[Run, ...]
    rows: int = 0
    emitted: int = 0
    lacking: frozenset[Key] = frozenset()
    why: str | None = None
    bytes: int = 0
    uncounted: bool = False
    certified: CertifiedRanges | None = None
    noted: SavedCourse | None = None

    def apply_to(self, progress: Progress) -> Progress:
        """The progress after this window."""
        asked = {key for run in self.runs for key in run.keys}
        again = [key for key in progress.reread if key not in asked or key in self.lacking]
        again += sorted(self.lacking.difference(progress.reread), key=str)
        points = {key for run in self.runs for key in run.points}
        rows = progress.rows + self.rows
        return replace(
            progress,
            extent=self._learned(
                progress.extent if asked or points else self._counted(progress.extent, rows)
            ),
            left=_less(progress.left, [run for run in self.runs if not run.keys and not run.points]),
            points=tuple(key for key in progress.points if key not in points),
            found=progress.found + (self.rows if points else 0),
            rows=rows,
            emitted=progress.emitted + self.emitted,
            chunks=progress.chunks + sum(run.chunks for run in self.runs),
            reread=tuple(again),
            rounds=progress.rounds + (bool(asked) and len(self.lacking) >= len(asked) and not self.uncounted),
            missing=progress.missing + self._gaps(),
            certified=self._certified(progress.certified),
            noted=self.noted,
        )

    def _certified(self, before: CertifiedRanges | None) -> CertifiedRanges | None:
        if self.certified is None or before is None:
            return self.certified or before
        return before.with_next(self.certified)

    def _counted(self, extent: Extent, rows: int) -> Extent:
        """The extent with so many rows, if fewer were estimated.

        With more rows in the same bytes each row is smaller, but not smaller than a staged one.
        """
        if rows <= extent.rows:
            return extent
        least = min(extent.row_bytes, self.bytes / max(self.rows, 1))
        return replace(extent, rows=rows, bytes=max(extent.bytes, int(least * rows)))

    def _learned(self, extent: Extent) -> Extent:
        """The extent with the measured size of rows, if they are larger than estimated."""
        seen = self.bytes - _STAGED_BYTES * self.rows
        if not self.rows or seen * extent.rows <= extent.bytes * self.rows:
            return extent
        return replace(extent, bytes=seen * extent.rows // self.rows)

    def _gaps(self) -> tuple[Gap, ...]:
        if self.why is None:
            return ()
        return tuple(gap_of(run, self.why) for run in self.runs)


def gap_of(run: Run, why: str = "") -> Gap:
    """The gap that a run leaves if it is not read."""
    return Gap(None if run.keys or run.points else run.range, run.keys, why, run.points)


def _less(left: Sequence[Range], runs: Sequence[Run]) -> tuple[Range, ...]:
    """The ranges without what the runs have read, from the first range's beginning on."""
    rest = list(left)
    for run in runs:
        if not rest or (run.after, run.holds_after) != (rest[0].after, rest[0].holds_after):
            raise InvariantError(f"a run after {run.after} was read, but it does not come next", where="plan")
        ends = (run.upto, run.lacks_upto) == (rest[0].upto, rest[0].lacks_upto)
        rest[:1] = [] if ends else [replace(rest[0], after=run.upto, holds_after=False)]
    return tuple(rest)


def _shown(key: Key | None) -> str | None:
    return None if key is None else "(" + ", ".join("NULL" if value is None else value for value in key) + ")"
