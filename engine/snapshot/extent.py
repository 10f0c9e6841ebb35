"""One collection's snapshot: its extent, what is left to read, and what could not be read. Pure.

A window's work comes in as an `Advance`; a new `Progress` comes out. `queue.py` has the queue of collections.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.errors import InvariantError
from engine.model import Key, Range, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.model import Run

_REMEMBERED_KEYS = 10_000
"""How many keys are remembered of a collection that failed."""
_STAGED_BYTES = 1024
"""How much larger a staged row may be than in the table: field names, and its key twice."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What was measured of a collection when its snapshot began.

    - `rows` and `bytes` are the database's estimates.
    - A `whole` collection is small enough for one run without bounds.
    - Otherwise `greatest` is the greatest key at that time, None for an empty collection.
    - `span` is the least and greatest value of a single, densely used integer key.
    - `key` identifies the key that the bounds belong to, in the source's own format.
    - `as_of` is a place in the log. Measuring and all later reads see the changes up to it. Empty if the
      source does not give one.
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
        """Everything there is to read."""
        if self.whole:
            return (Range(),)
        return () if self.greatest is None else (Range(None, self.greatest),)


@dataclass(frozen=True, slots=True)
class Gap:
    """Rows that could not be read, of a range or under `keys`, and the reason in words."""

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
    """How far a collection has been read: `left` holds the unread ranges, in order.

    `rows` counts the rows read, `emitted` the READ events that survived; `since_ms` is when reading began.
    `reread` holds the keys to read again: rows whose newest image in the log lacks a value that was never
    sent. `rounds` counts the windows that did not reduce them. `missing` could not be read.
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
        """What would be missing if the snapshot ended now."""
        left = tuple(Gap(unread) for unread in self.left)
        return self.missing + left + ((Gap(None, self.reread),) if self.reread else ())


@dataclass(frozen=True, slots=True)
class Failed:
    """What a failed snapshot lacks. The bounds belong to `key` (`Extent.key`)."""

    target: Target
    key: tuple[str, ...]
    gaps: tuple[Gap, ...]

    def with_keys(self, keys: frozenset[Key]) -> Failed:
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
        """The progress that reads the gaps, or everything if the bounds no longer fit the table's key."""
        ranges = tuple(gap.range for gap in self.gaps if gap.range)
        if extent.whole or extent.key != self.key or self.all:
            return Progress(extent, now_ms, extent.ranges)
        keys = tuple(key for gap in self.gaps for key in gap.keys)
        return Progress(extent, now_ms, ranges, reread=keys)


@dataclass(frozen=True, slots=True)
class Advance:
    """What one window did for one entry of the queue.

    Its `runs` were read, or given up for the reason in `why`. Rows under the keys in `lacking` must be read
    again. `bytes` is the staged size of the rows read. `vain`: it read keys again while the change that had
    superseded them was still invisible to it, so it does not count as a round.
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
        """The progress after this window."""
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
    return Gap(None if run.keys else Range(run.after, run.upto), run.keys, why)


def _less(left: Sequence[Range], runs: Sequence[Run]) -> tuple[Range, ...]:
    """The ranges without what the runs have read, from the first range's beginning on."""
    rest = list(left)
    for run in runs:
        if not rest or run.after != rest[0].after:
            raise InvariantError(
                f"a run after {run.after} was read, and is not what comes next", place="plan"
            )
        rest[:1] = [] if run.upto == rest[0].upto else [Range(run.upto, rest[0].upto)]
    return tuple(rest)


def _shown(key: Key | None) -> str | None:
    return None if key is None else "(" + ", ".join("NULL" if value is None else value for value in key) + ")"
