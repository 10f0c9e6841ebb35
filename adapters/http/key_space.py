"""The key space of a collection as segments from 0 to 1: done, in flight, waiting, failed. Pure.

A segment has no key in it, since keys are values of rows. Where a densely used integer key is read, places
are exact. Elsewhere they follow from the share of rows read.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from engine.snapshot.extent import integers_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.model import Range, Run, Window
    from engine.snapshot.extent import FailedSnapshot, Progress
    from engine.snapshot.queue_entry import Table

_LEAST = 0.01
"""The least width of a failed segment whose position is unknown."""


class Fate(StrEnum):
    """What becomes of a part of the keys."""

    DONE = "done"
    IN_FLIGHT = "in flight"
    WAITING = "waiting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the key space, both ends from 0 to 1."""

    start: float
    end: float
    fate: Fate


def segments(table: Table, windows: Iterable[Window], chunk_rows: int) -> tuple[Segment, ...]:
    """The segments of an entry of the queue, in order, from 0 to 1 without gaps."""
    progress = table.progress
    if progress is None:
        return (Segment(0.0, 1.0, Fate.WAITING),)
    runs = [run for window in windows for run in window.runs if run.ticket == table.ticket]
    if progress.extent.span is not None and progress.extent.scoped is None:
        return _exact(progress, progress.extent.span, runs)
    return _estimated(progress, runs, chunk_rows)


def segments_of_failed(failed: FailedSnapshot) -> tuple[Segment, ...]:
    """The segments of a collection that failed, of which only what it lacks is remembered."""
    return (Segment(0.0, 1.0, Fate.FAILED),) if failed.all else _marks(len(failed.gaps))


def chunk_ends(parts: Sequence[Segment]) -> tuple[float, float] | None:
    """Where the part in flight begins and ends; None if nothing is in flight."""
    flying = [part for part in parts if part.fate is Fate.IN_FLIGHT]
    return (flying[0].start, flying[-1].end) if flying else None


def _exact(progress: Progress, span: tuple[int, int], runs: Sequence[Run]) -> tuple[Segment, ...]:
    low, high = span
    width = high - low + 1

    def place(part: Range) -> tuple[float, float]:
        start, end = integers_in(part, span)
        return max(0.0, (start - low + 1) / width), min(1.0, (end - low + 1) / width)

    flying = [place(run.range) for run in runs if not run.keys and not run.points]
    missing = [place(gap.range) for gap in progress.missing if gap.range is not None]
    waiting = [place(left) for left in progress.left]
    return _painted(
        [(Fate.WAITING, waiting), (Fate.FAILED, missing), (Fate.IN_FLIGHT, flying)],
    )


def _estimated(progress: Progress, runs: Sequence[Run], chunk_rows: int) -> tuple[Segment, ...]:
    done = progress.fraction_read
    rows = sum(run.chunks for run in runs) * chunk_rows
    flying = min(1.0 - done, rows / max(1, progress.extent.asked_rows)) if runs else 0.0
    if progress.extent.whole and runs:
        flying = 1.0 - done
    lost = min(done, _LEAST * len(progress.missing))
    return _painted(
        [
            (Fate.WAITING, [(done, 1.0)]),
            (Fate.FAILED, [(done - lost, done)]),
            (Fate.IN_FLIGHT, [(done, done + flying)]),
        ]
    )


def _marks(count: int) -> tuple[Segment, ...]:
    lost = min(1.0, _LEAST * max(1, count))
    return _painted([(Fate.FAILED, [(0.0, lost)])])


def _painted(layers: Sequence[tuple[Fate, Sequence[tuple[float, float]]]]) -> tuple[Segment, ...]:
    """The segments that are seen if these layers are painted one over the other, on a ground that is done."""
    parts = [Segment(0.0, 1.0, Fate.DONE)]
    for fate, places in layers:
        for start, end in places:
            if end > start:
                parts = [piece for part in parts for piece in _cut(part, start, end)]
                parts.append(Segment(start, end, fate))
    return _joined(sorted(parts, key=lambda part: part.start))


def _cut(part: Segment, start: float, end: float) -> Iterable[Segment]:
    """What is left of a part outside of a place."""
    if part.start < min(part.end, start):
        yield Segment(part.start, min(part.end, start), part.fate)
    if max(part.start, end) < part.end:
        yield Segment(max(part.start, end), part.end, part.fate)


def _joined(parts: Sequence[Segment]) -> tuple[Segment, ...]:
    """The parts, with neighbours of the same fate as one."""
    joined: list[Segment] = []
    for part in parts:
        if joined and joined[-1].fate is part.fate:
            joined[-1] = Segment(joined[-1].start, part.end, part.fate)
        else:
            joined.append(part)
    return tuple(joined)
