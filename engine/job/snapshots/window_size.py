"""How much a window may read: by the rate measured, and by the limits of the job and of signals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.snapshot.pace.estimate import Speed
from engine.snapshot.pace.rate import Rate, reading_s
from engine.snapshot.pace.throttle import Throttle
from engine.snapshot.plan import Budget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.job.parts import JobParts, Pace
    from engine.job.saved.state import State
    from engine.model import Limit, Window
    from engine.snapshot.extent import Extent
    from engine.snapshot.queue import Snapshot
    from engine.snapshot.queue_entry import Table


class WindowSize:
    """What has been read so far, and so what the next window may read."""

    def __init__(self, job_parts: JobParts, pace: Pace) -> None:
        self._parts, self._pace = job_parts, pace
        self._rate = Rate()
        self._waited_s = 0.0
        self._throttle = Throttle(pace.limit, pace.window_s)
        self._chunk_rows, self._limited = pace.chunk_rows, True

    def note_opened(self, state: State, window: Window) -> None:
        """Note that a window has opened: what it is planned to read counts from now on."""
        table = state.snapshot.find(window.runs[0].ticket)
        if table is not None and table.progress is not None and self._limited:
            rows = sum(run.chunks for run in window.runs) * self._chunk_rows
            planned = (rows, int(rows * table.progress.extent.row_bytes))
            self._throttle.charge(window.id, table, planned, self._parts.clock())

    def note_read(self, window: Window, rows: int, size: int) -> None:
        """Note what a window has read, now that all its rows are staged."""
        self._throttle.correct_charge(window.id, rows, size)

    def note_given_up(self, window: Window) -> None:
        """Note that a window was given up."""
        self._throttle.keep_charge(window.id)

    def note_wait(self, seconds: float) -> None:
        """Note how long a window's rows waited for the stream. Longer waits make for larger windows."""
        self._waited_s = seconds if not self._waited_s else (self._waited_s + seconds) / 2

    def learn(self, rows: int, elapsed_s: float) -> None:
        """Note a window of `rows` rows that took `elapsed_s` from its opening to its last row."""
        self._rate = self._rate.learned(rows, elapsed_s)

    def follow(self, tables: Sequence[Table], now_s: float) -> None:
        """Note what the queue holds now, whose limits count."""
        self._throttle.follow(tables, now_s)

    def choose_limits(self, state: State, active: Snapshot) -> None:
        """Decide whether the limits count for what is read next.

        A snapshot for which the log waits is not limited: it would hold its transaction for longer.
        """
        self._limited = not (active.tables[0].target.as_initial and self._parts.source.holds_log(state))

    def job_waits(self, now_s: float) -> bool:
        """Whether the job's limit allows no window yet."""
        return self._limited and self._throttle.job_waits(now_s)

    def waits(self, table: Table, now_s: float) -> bool:
        """Whether a collection's own limit allows no window yet."""
        return self._throttle.waits(table, now_s)

    def speed(self, limit: Limit, extent: Extent) -> Speed:
        """How fast a collection would be read within a limit and the job's."""
        usual = self._rate.rows_per_s or self._pace.window_rows / self._pace.window_s
        allowed = self._throttle.speed(limit, usual, extent.row_bytes)
        return Speed(allowed, assumed=allowed == usual and not self._rate.rows_per_s)

    def usual_rows(self) -> int:
        """How many rows a window reads in its usual time."""
        rows = int(self._rate.rows_per_s * self._period_s()) or self._pace.window_rows
        return max(rows, self._pace.chunk_rows)

    def budget(self, tables: Sequence[Table], rows: int, *, alone: bool) -> Budget:
        """What a window that begins with the first of these entries may read: at most `rows` rows."""
        pace, tasks = self._pace, self._parts.tasks()
        first = tables[0].progress if tables else None
        most = self.most_rows(tables[0], first.extent) if first else None
        if most is not None:
            rows = min(rows, most)
        self._chunk_rows = pace.chunk_rows if most is None else min(pace.chunk_rows, rows)
        return Budget(
            rows=rows,
            bytes=max(pace.window_bytes, pace.task_bytes * tasks),
            tasks=tasks,
            chunk_rows=self._chunk_rows,
            chunks=pace.max_chunks,
            alone=alone,
            strict=most is not None,
            pieces=pace.pieces,
            piece_rows=pace.piece_rows,
            piece_bytes=pace.piece_bytes,
        )

    def most_rows(self, table: Table, extent: Extent) -> int | None:
        """How many rows a window of an entry may have by the limits; None: any number."""
        if not self._limited:
            return None
        return self._throttle.most_rows(table, extent.row_bytes, self._period_s())

    def _period_s(self) -> float:
        return reading_s(self._pace.window_s, self._waited_s, self._pace.longest_window_s)
