"""What is left to read of one collection: its extent, how far it was read, what could not be. Pure.

A window's work on it comes in as an `Advance`, a new `Progress` comes out. The queue of collections is
`queue.py`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.errors import InvariantError
from engine.model import Range, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.model import Key, Run

_REMEMBERED_KEYS = 10_000
"""Of a collection that failed."""
_STAGED_BYTES = 1024
"""What a row may have more where it is staged: names, and its key twice."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What was measured of a collection when its snapshot began.

    `rows` and `bytes` are the database's estimates. A `whole` collection is small enough to be read
    by one run without bounds. Otherwise `greatest` is the greatest key then, None for a collection
    without rows, and `span` the least and greatest value of a single, densely used integer key. `key`
    says what key the bounds belong to, in the source's own words. `as_of` is the place in the log whose
    changes the measuring has seen, and every row read since; empty where the source does not tell.
    """

    rows: int
    bytes: int
    whole: bool = False
    greatest: Key | None = None
    span: tuple[int, int] | None = None
    key: tuple[str, ...] = ()
    as_of: tuple[int, ...] = ()

    @property
    def ranges(self) -> tuple[Range, ...]:
        """All there is to read."""
        if self.whole:
            return (Range(),)
        return () if self.greatest is None else (Range(None, self.greatest),)


@dataclass(frozen=True, slots=True)
class Gap:
    """Rows that could not be read, those of a range or else those under `keys`; and why, in words."""

    range: Range | None
    keys: tuple[Key, ...] = ()
    why: str = ""

    def __str__(self) -> str:
        if self.range is None:
            return f"{len(self.keys)} rows under single keys"
        after, upto = (_shown(key) for key in (self.range.after, self.range.upto))
        match after, upto:
            case None, None:
                return "everything"
            case None, _:
                return f"keys up to {upto}"
            case _, None:
                return f"keys after {after}"
            case _:
                return f"keys after {after} up to {upto}"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a collection has been read: `left` are the ranges that have not been, in order.

    `rows` counts the rows read, `emitted` the READ events that survived, `since_ms` when it began.
    Once no range is left, the keys in `reread` remain: rows whose newest image in the log lacks a value
    that was never sent. `rounds` counts the windows that left no fewer of them. `missing` could not be read.
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

    @property
    def done(self) -> bool:
        """Whether nothing is left to read."""
        return not self.left and not self.reread

    @property
    def lacks(self) -> tuple[Gap, ...]:
        """What would be missing if it ended now."""
        left = tuple(Gap(one) for one in self.left)
        return self.missing + left + ((Gap(None, self.reread),) if self.reread else ())


@dataclass(frozen=True, slots=True)
class Failed:
    """What a collection lacks whose snapshot failed; the bounds belong to `key` (`Extent.key`)."""

    target: Target
    key: tuple[str, ...]
    gaps: tuple[Gap, ...]

    def with_keys(self, keys: frozenset[Key]) -> Failed:
        """With rows that may have come out of a gap, and lack a value that nobody has sent.

        Of too many of them to be kept nothing is: everything is lacking then.
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
        """What is left to read of it: the gaps, or everything where they can't be told any more."""
        ranges = tuple(gap.range for gap in self.gaps if gap.range)
        if extent.whole or extent.key != self.key or self.all:
            return Progress(extent, now_ms, extent.ranges)
        keys = tuple(key for gap in self.gaps for key in gap.keys)
        return Progress(extent, now_ms, ranges, reread=keys)


@dataclass(frozen=True, slots=True)
class Advance:
    """What one window did for one collection of the queue.

    Its `runs` were read, or given up for the reason in `why`. Rows under the keys in `lacking` must be
    read again. `bytes` were staged for the rows that it read. A `vain` one read keys again while what had
    superseded them was still hidden from it: no round to count.
    """

    ticket: int
    runs: tuple[Run, ...]
    rows: int = 0
    emitted: int = 0
    lacking: frozenset[Key] = frozenset()
    why: str | None = None
    bytes: int = 0
    vain: bool = False

    def applied(self, progress: Progress) -> Progress:
        """The progress after it."""
        asked = {key for run in self.runs for key in run.keys}
        again = [key for key in progress.reread if key not in asked or key in self.lacking]
        again += sorted(self.lacking.difference(progress.reread), key=str)
        return replace(
            progress,
            extent=self._learned(progress.extent),
            left=_less(progress.left, [run for run in self.runs if not run.keys]),
            rows=progress.rows + self.rows,
            emitted=progress.emitted + self.emitted,
            chunks=progress.chunks + sum(run.chunks for run in self.runs),
            reread=tuple(again),
            rounds=progress.rounds + (bool(asked) and len(self.lacking) >= len(asked) and not self.vain),
            missing=progress.missing + self._gaps(),
        )

    def _learned(self, extent: Extent) -> Extent:
        """With the size that its rows turned out to have, where they are larger than was estimated."""
        seen = self.bytes - _STAGED_BYTES * self.rows
        if not self.rows or seen * extent.rows <= extent.bytes * self.rows:
            return extent
        return replace(extent, bytes=seen * extent.rows // self.rows)

    def _gaps(self) -> tuple[Gap, ...]:
        if self.why is None:
            return ()
        return tuple(gap_of(run, self.why) for run in self.runs)


def gap_of(run: Run, why: str = "") -> Gap:
    """The rows that a run would have read."""
    return Gap(None if run.keys else Range(run.after, run.upto), run.keys, why)


def _less(left: Sequence[Range], runs: Sequence[Run]) -> tuple[Range, ...]:
    """The ranges less what runs have read from their beginning on."""
    rest = list(left)
    for run in runs:
        if not rest or run.after != rest[0].after:
            raise InvariantError(
                f"a run after {run.after} was read, and is not what comes next", place="plan"
            )
        rest[:1] = [] if run.upto == rest[0].upto else [Range(run.upto, rest[0].upto)]
    return tuple(rest)


def _shown(key: Key | None) -> str | None:
    return None if key is None else "(" + ", ".join("NULL" if one is None else one for one in key) + ")"
