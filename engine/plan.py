"""Which keys to read next: windows cut to a budget, runs cut for the tasks that read them. Pure.

A window takes the collections of the queue in order until its budget is used up. Keys of a densely
used integer column are split by arithmetic; for all others the database is asked for boundaries,
through a callable, always onwards from the last one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

from engine.errors import InvariantError
from engine.model import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.model import Key, Target
    from engine.snapshot import Progress, Snapshot, Table

    Boundaries = Callable[[Target, Key | None, Key, int, int], Sequence[Key]]
    """`(target, after, upto, step_rows, count)`: up to `count` keys below `upto`, each about
    `step_rows` rows behind the one before, the first that far behind `after`; fewer at the end."""

_REREAD_AT_ONCE = 5_000
"""Keys named in one query."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What one window may read: rows, bytes, chunks of `chunk_rows` rows, by `tasks` tasks at once."""

    rows: int
    bytes: int
    tasks: int
    chunk_rows: int
    chunks: int | None = None

    def less(self, *, rows: int, size: int, chunks: int) -> Budget:
        """What is left after some of it was planned."""
        left = None if self.chunks is None else self.chunks - chunks
        return replace(self, rows=self.rows - rows, bytes=self.bytes - size, chunks=left)

    @property
    def spent(self) -> bool:
        """Whether nothing more fits."""
        return self.rows <= 0 or self.bytes <= 0 or (self.chunks is not None and self.chunks <= 0)

    def rows_for(self, row_bytes: float) -> int:
        """How many rows of this size the budget holds, at least one chunk."""
        rows = min(self.rows, int(self.bytes / max(row_bytes, 1.0)))
        if self.chunks is not None:
            rows = min(rows, self.chunks * self.chunk_rows)
        return max(rows, self.chunk_rows)


@dataclass(frozen=True, slots=True)
class Plan:
    """The runs of a window and the tickets of the collections whose last range is among them."""

    runs: tuple[Run, ...] = ()
    finishes: frozenset[int] = frozenset()


def plan_window(snapshot: Snapshot, budget: Budget, boundaries: Boundaries) -> Plan:
    """Cut the next window out of the queue's measured collections, in order.

    Stops before the first collection that has not begun. Empty when there is nothing to read.
    """
    runs: list[Run] = []
    finishes: set[int] = set()
    for table in snapshot.tables:
        if table.progress is None or (runs and budget.spent):
            break
        planned, finished = _plan_table(table, table.progress, budget, boundaries)
        runs += planned
        if not finished:
            break
        if not table.progress.covered:
            finishes.add(table.ticket)
        budget = _after(budget, table.progress, planned)
    return Plan(tuple(runs), frozenset(finishes))


def _after(budget: Budget, progress: Progress, planned: Sequence[Run]) -> Budget:
    extent, chunks = progress.extent, sum(run.chunks for run in planned)
    rows = min(extent.rows, chunks * budget.chunk_rows)
    size = int(rows * extent.bytes / max(extent.rows, 1))
    return budget.less(rows=rows, size=size, chunks=chunks)


def _plan_table(
    table: Table, progress: Progress, budget: Budget, boundaries: Boundaries
) -> tuple[list[Run], bool]:
    extent = progress.extent
    if progress.covered:
        keys = progress.reread[:_REREAD_AT_ONCE]
        chunks = ceil(len(keys) / budget.chunk_rows)
        return [Run(table.ticket, table.target, None, None, chunks, keys, extent.key)], True
    if extent.whole:
        chunks = max(1, ceil(extent.rows / budget.chunk_rows))
        return [Run(table.ticket, table.target, None, None, chunks, key=extent.key)], True
    if extent.greatest is None:
        return [], True
    rows = budget.rows_for(extent.bytes / max(extent.rows, 1))
    tasks = max(1, min(budget.tasks, rows // budget.chunk_rows))
    step = ceil(rows / tasks)
    bounds = _bounds(table, progress, step, tasks, boundaries)
    finished = len(bounds) < tasks
    if finished:
        bounds = [*bounds, extent.greatest]
    chunks = max(1, round(step / budget.chunk_rows))
    afters = [progress.last, *bounds]
    runs = [
        Run(table.ticket, table.target, after, upto, chunks, key=extent.key)
        for after, upto in zip(afters, bounds, strict=False)
    ]
    return runs, finished


def _bounds(table: Table, progress: Progress, step: int, count: int, boundaries: Boundaries) -> list[Key]:
    greatest = progress.extent.greatest
    if greatest is None:
        raise InvariantError(f"{table.target.collection} has no greatest key", place="plan")
    if progress.extent.span is None:
        return list(boundaries(table.target, progress.last, greatest, step, count))
    least, highest = progress.extent.span
    start = least - 1 if progress.last is None else _integer(progress.last)
    width = ceil(step / _density(progress, least, highest))
    uptos = (start + width * (index + 1) for index in range(count))
    return [(str(upto),) for upto in uptos if upto < highest]


def _density(progress: Progress, least: int, highest: int) -> float:
    """Rows per key value, the greater of what was estimated and what has been seen."""
    density = progress.extent.rows / (highest - least + 1)
    if progress.last is not None:
        density = max(density, progress.rows / max(1, _integer(progress.last) - least + 1))
    return min(1.0, max(density, 1e-9))


def _integer(key: Key) -> int:
    (text,) = key
    return int(text or 0)


def fraction_read(progress: Progress) -> float:
    """How much of a collection has been read, from 0 to 1; an estimate where keys are no integers."""
    if progress.last is None:
        return 0.0
    if progress.extent.span is not None:
        least, highest = progress.extent.span
        return min(1.0, (_integer(progress.last) - least + 1) / max(1, highest - least + 1))
    return min(1.0, progress.rows / max(1, progress.extent.rows))
