"""Which keys to read next: cuts windows to a budget, and runs for the tasks that read them. Pure.

A window takes collections from the queue in order until its budget is used up. Densely used integer keys are
split by arithmetic. For all others the database is asked for boundaries, through a callable, always onwards
from the last one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

from engine.model import Run
from engine.snapshot.extent import integers_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.model import Key, Range, Target
    from engine.snapshot.extent import Progress
    from engine.snapshot.queue import Snapshot
    from engine.snapshot.queue_entry import Table

    Boundaries = Callable[[Target, Range, int, int], Sequence[Key]]
    """`(target, left, step_rows, count)`: up to `count` keys of the range, without its last one, each about
    `step_rows` rows after the previous one, the first that far after its beginning; fewer at the end.

    The range has an upper bound."""

REREAD_AT_ONCE = 5_000
"""How many keys one query names at most."""
_POINTS_AT_ONCE = 1_000
"""How many keys that a signal asked for one query names at most."""
_SLACK = 1.1
"""The tolerance for rows beyond the estimate, so that no extra window is needed for a few of them."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What one window may read: rows, bytes, and chunks of `chunk_rows` rows, with `tasks` parallel tasks.

    A task reads up to `pieces` runs one after another, of at least `piece_rows` rows and `piece_bytes` bytes,
    or of a larger chunk.
    `alone`: one run only. `strict`: `rows` bounds keys that are read again, too.
    """

    rows: int
    bytes: int
    tasks: int
    chunk_rows: int
    chunks: int | None = None
    alone: bool = False
    strict: bool = False
    pieces: int = 12
    piece_rows: int = 25_000
    piece_bytes: int = 0

    def less(self, *, rows: int, size: int, chunks: int) -> Budget:
        """The budget left after this much is planned."""
        left = None if self.chunks is None else self.chunks - chunks
        return replace(self, rows=self.rows - rows, bytes=self.bytes - size, chunks=left)

    @property
    def spent(self) -> bool:
        """Whether nothing more fits."""
        few = self.rows <= 0 or self.bytes <= 0 or (self.chunks is not None and self.chunks <= 0)
        return self.alone or few

    def rows_for(self, row_bytes: float) -> int:
        """How many rows of this size fit: at least a chunk if the bytes allow it, and at least one row."""
        rows = self.rows if self.chunks is None else min(self.rows, self.chunks * self.chunk_rows)
        return max(1, min(max(rows, self.chunk_rows), int(self.bytes / max(row_bytes, 1.0))))


def plan_window(snapshot: Snapshot, budget: Budget, boundaries: Boundaries) -> tuple[Run, ...]:
    """Cut the next window's runs from the queue's measured collections, in order.

    Stops at the first collection that has not begun, and where the first stage ends. Keys don't mix with
    ranges, because a source may hold its stream while a few keys are read. Empty if nothing is left.
    """
    runs: list[Run] = []
    for table in snapshot.tables:
        if table.progress is None or (runs and budget.spent) or table.stage != snapshot.tables[0].stage:
            break
        planned, finished = _plan_table(table, table.progress, budget, boundaries)
        if runs and planned and bool(runs[0].keys) != bool(planned[0].keys):
            break
        runs += planned
        if not finished:
            break
        budget = _after(budget, table.progress, planned)
    return tuple(runs)


def _after(budget: Budget, progress: Progress, planned: Sequence[Run]) -> Budget:
    extent, chunks = progress.extent, sum(run.chunks for run in planned)
    rows = min(extent.asked_rows, chunks * budget.chunk_rows)
    size = int(rows * extent.bytes / max(extent.rows, 1))
    return budget.less(rows=rows, size=size, chunks=chunks)


def _plan_table(
    table: Table, progress: Progress, budget: Budget, boundaries: Boundaries
) -> tuple[list[Run], bool]:
    """The collection's next runs, and whether they are its last ones."""
    extent = progress.extent
    unread = bool(progress.left or progress.points)
    if not unread or len(progress.reread) >= REREAD_AT_ONCE:
        # If many pile up they are read before the ranges are finished, so the state never grows too large.
        return _plan_again(table, progress, budget), not unread
    if progress.points:
        points = _plan_points(table, progress, budget)
        return points, sum(len(run.points) for run in points) == len(progress.points)
    if extent.whole:
        chunks = max(1, ceil(extent.rows / budget.chunk_rows))
        return [Run(table.ticket, table.target, None, None, chunks, key=extent.key)], True
    rows = _rows_now(progress, budget)
    tasks = 1 if budget.alone else max(1, min(budget.tasks, rows // budget.chunk_rows))
    in_bytes = int(budget.piece_bytes / max(extent.row_bytes, 1.0))
    piece_rows = max(budget.piece_rows, budget.chunk_rows, in_bytes)
    count = 1 if budget.alone else tasks * max(1, min(budget.pieces, rows // (tasks * piece_rows)))
    step = ceil(rows / count)
    runs: list[Run] = []
    for place, left in enumerate(progress.left):
        planned, finished = _plan_range(table, progress, left, step, count - len(runs), boundaries)
        runs += [replace(run, chunks=max(1, round(step / budget.chunk_rows))) for run in planned]
        if not finished or len(runs) >= count:
            return runs, finished and place == len(progress.left) - 1
    return runs, True


def _rows_now(progress: Progress, budget: Budget) -> int:
    """The rows of this window. If few are left, just those, so that all tasks share them evenly."""
    extent = progress.extent
    rows, left = budget.rows_for(extent.row_bytes), _rows_left(progress)
    if left is None or budget.alone or budget.tasks == 1:
        return rows
    return min(rows, max(budget.chunk_rows, ceil(left * _SLACK)))


def _rows_left(progress: Progress) -> float | None:
    """An estimate; None if more rows were read than estimated."""
    span = progress.extent.span
    if span is None:
        left = progress.extent.asked_rows - progress.rows
        return left if left > 0 else None
    ends = [integers_in(left, span) for left in progress.left]
    return sum(max(0, end - start) * _density(progress, start, span) for start, end in ends)


def _plan_points(table: Table, progress: Progress, budget: Budget) -> list[Run]:
    """The next keys that the signal asked for, some in each run."""
    most = 1 if budget.alone else budget.tasks * budget.pieces
    rows = most * _POINTS_AT_ONCE
    points = progress.points[: max(1, min(rows, budget.rows) if budget.alone or budget.strict else rows)]
    runs = [points[at : at + _POINTS_AT_ONCE] for at in range(0, len(points), _POINTS_AT_ONCE)]
    return [
        Run(
            *(table.ticket, table.target, None, None, ceil(len(some) / budget.chunk_rows)),
            key=progress.extent.key,
            points=some,
        )
        for some in runs[:most]
    ]


def _plan_again(table: Table, progress: Progress, budget: Budget) -> list[Run]:
    """The keys to read again, as one run."""
    if not progress.reread:
        return []
    at_once = min(REREAD_AT_ONCE, budget.rows) if budget.alone or budget.strict else REREAD_AT_ONCE
    keys = progress.reread[: max(1, at_once)]
    chunks = ceil(len(keys) / budget.chunk_rows)
    return [Run(table.ticket, table.target, None, None, chunks, keys, progress.extent.key)]


def _plan_range(
    table: Table, progress: Progress, left: Range, step: int, count: int, boundaries: Boundaries
) -> tuple[list[Run], bool]:
    """Up to `count` runs of about `step` rows from the start of a range, and whether they cover all of it."""
    bounds: list[Key | None] = [*_bounds(table, progress, left, step, count, boundaries)]
    finished = len(bounds) < count
    if finished:
        bounds.append(left.upto)
    last = len(bounds) - 1
    runs = [
        Run(
            *(table.ticket, table.target, after, upto),
            key=progress.extent.key,
            holds_after=left.holds_after and at == 0,
            lacks_upto=left.lacks_upto and finished and at == last,
        )
        for at, (after, upto) in enumerate(zip([left.after, *bounds], bounds, strict=False))
    ]
    return runs, finished


def _bounds(
    table: Table, progress: Progress, left: Range, step: int, count: int, boundaries: Boundaries
) -> Sequence[Key]:
    if left.upto is None:
        return []
    if progress.extent.span is None:
        return boundaries(table.target, left, step, count)
    start, end = integers_in(left, progress.extent.span)
    width = ceil(step / _density(progress, start, progress.extent.span))
    uptos = (start + width * (index + 1) for index in range(count))
    return [(str(upto),) for upto in uptos if upto < end]


def _density(progress: Progress, start: int, span: tuple[int, int]) -> float:
    """Rows per key value: the greater of the estimate and what was observed."""
    least, highest = span
    density = progress.extent.rows / (highest - least + 1)
    if progress.rows and start >= least and progress.extent.scoped is None:
        density = max(density, progress.rows / (start - least + 1))
    return min(1.0, max(density, 1e-9))
