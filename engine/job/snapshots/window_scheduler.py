"""Decides which window opens next, and when, and what follows from a failure.

`measurement.py` measures collections, `window_size.py` says how much a window may read, and `pauses.py` who
waits. `plan.py` cuts a window to its budget, and `failure_policy.py` has the policy about failures.
`windows.py` owns the windows in progress.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, assert_never

from engine.errors import (
    SchemaChanged,
    SnapshotGone,
    SourceError,
    TableBusy,
    TidemarkError,
)
from engine.job.snapshots.completion import end_completed, give_up, hindered_error, overrun_error
from engine.job.snapshots.measurement import Measurement, once_emitted
from engine.job.snapshots.pauses import Pauses
from engine.job.snapshots.window_size import WindowSize
from engine.model import Window
from engine.snapshot.extent import Advance, gap_of
from engine.snapshot.failure_policy import FailureRecord, Remedy, YieldLimit
from engine.snapshot.pace.throttle import lane
from engine.snapshot.plan import Budget, plan_window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.errors import GaveWay
    from engine.job.parts import JobParts, Pace
    from engine.job.saved.state import State
    from engine.model import Run
    from engine.snapshot.queue import Snapshot
    from engine.snapshot.queue_entry import Table

_log = logging.getLogger("engine")
_ANEW = 3
"""How often a collection is restarted because too many of its rows may have moved."""


class WindowScheduler:
    """Decides which window opens next, and when. `pauses` and `size` are told of the windows."""

    def __init__(self, job_parts: JobParts, pace: Pace) -> None:
        self._parts, self._pace = job_parts, pace
        self.pauses, self.size = Pauses(pace, job_parts.clock), WindowSize(job_parts, pace)
        self._measuring = Measurement(job_parts, self.pauses, self.size)
        self._failure_record, self._yielding = FailureRecord(), YieldLimit()
        self._failures = 0
        self._anew: dict[int, int] = {}

    # Feedback from windows.

    def note_success(self, window: Window, rows: int, elapsed_s: float) -> None:
        """Note a window of `rows` rows that took `elapsed_s` from its opening to its last row."""
        self._failures = 0
        self.pauses.note_success()
        self._yielding = self._yielding.after_success(self.size.usual_rows())
        self._failure_record = self._failure_record.after_success(window, self.size.usual_rows())
        self.size.learn(rows, elapsed_s)

    def handle_yield(self, state: State, window: Window, error: GaveWay, *, behind: bool) -> State:
        """Handle a window that gave way to a waiting session: read less next time, or give up its table.

        A window `behind` another must not change the queue.
        """
        self._yielding = self._yielding.after_yield(window, self._pace.chunk_rows)
        self.pauses.give_way()
        table = state.snapshot.find(window.runs[0].ticket)
        if self._yielding.hopeless and table is not None and not behind:
            self._yielding = YieldLimit()
            return self._give_up(state, [table], hindered_error(table, error))
        _log.warning(
            "window %s is given up and will be read again, %d rows at once: %s",
            *(window.id, self._yielding.least(self.size.usual_rows()), error),
        )
        return state if behind else self._measuring.measure_with_bounds(state, window)

    def handle_failure(self, state: State, window: Window, error: SourceError) -> State:
        """Handle a window whose rows could not be read."""
        chunk_rows, retries = self._pace.chunk_rows, self._pace.window_retries
        too_slow = isinstance(error, SnapshotGone)
        self._failure_record, remedy = self._failure_record.after_failure(
            window, chunk_rows, retries, smaller=too_slow
        )
        pause_s = self._pace.pause_s(self._failure_record.failures or 1)
        self.pauses.begin(pause_s)
        run = window.runs[0]
        name = run.target.collection
        match remedy:
            case Remedy.AGAIN:
                _log.warning("%s; the window is read again in %.1f s", error, pause_s)
                return state
            case Remedy.SPLIT:
                _log.warning(
                    "%s; the window is split, to read %s rows at once", error, self._failure_record.rows
                )
                return self._measuring.measure_with_bounds(state, window)
            case Remedy.GIVE_UP_RUN:
                _log.error("%s; these rows of %s are left out: %s", error, name, gap_of(run))
                lost = Advance(run.ticket, (run,), why=str(error))
                state = replace(state, snapshot=state.snapshot.advanced(lost))
                return end_completed(state, self._parts)
            case Remedy.GIVE_UP_COLLECTION:
                table = state.snapshot.find(run.ticket)
                return self._give_up(state, [table] if table else [], error)
            case _:
                assert_never(remedy)

    def restart_crowded(self, state: State, tables: Sequence[Table]) -> State:
        """Restart entries with too many rows to read again; after 3 restarts give them up.

        Other entries of the same collection go on: a window may be reading them.
        """
        for table in tables:
            times = self._anew[table.ticket] = self._anew.get(table.ticket, 0) + 1
            if times > _ANEW:
                state = self._give_up(state, [table], overrun_error(table))
            else:
                _log.warning("%s; the table is read again", overrun_error(table))
                state = state.with_queue(state.snapshot.changed((table.ticket,), lambda entry: entry.anew))
        return state

    def _give_up(self, state: State, tables: Sequence[Table], error: SourceError) -> State:
        return give_up(state, self._parts.listener, tables, error)

    # The next window. `ahead` is what the window in front has read but not emitted yet.

    def may_open(self, state: State, lag_s: float, ahead: Sequence[Advance]) -> bool:
        """Whether a window may open now if there is something to read: the stream keeps up, nothing waits."""
        now_s, active = self._parts.clock(), state.snapshot.active
        self.size.follow(active.tables, now_s)
        if not active.tables or self.pauses.waits(now_s):
            return False
        self.pauses.note_lag(lag_s, now_s)
        if self.pauses.waits(now_s) or (ahead and not _follows(active, ahead)):
            return False
        self.size.choose_limits(state, active)
        return not self.size.job_waits(now_s)

    def measured(self, state: State, ahead: Sequence[Advance]) -> State:
        """The state with the next collections measured; what can't be read or is empty is answered."""
        return end_completed(self._measuring.measure_next(state, ahead), self._parts)

    def next_window(self, state: State, ahead: Sequence[Advance]) -> tuple[State, Window | None]:
        """The window to open now, if there is something to read."""
        try:
            free = self.pauses.free(state.snapshot.active, self.size.waits)
            left = once_emitted(free, ahead)
            if ahead and not _same_stage(state.snapshot, left, ahead):
                return state, None
            snapshot = _together(left)
            runs = plan_window(snapshot, self._budget(snapshot), self._parts.source.tables().boundaries)
        except (TableBusy, SchemaChanged) as error:
            return self.handle_refusal(state, error, behind=bool(ahead)), None
        if ahead:
            runs = tuple(takewhile(lambda run: not run.keys, runs))
        return state, Window(self._parts.new_id(), runs, _signals(snapshot, runs)) if runs else None

    def _budget(self, snapshot: Snapshot) -> Budget:
        few = self._failure_record.rows
        rows = self._yielding.least(self.size.usual_rows() if few is None else few)
        return self.size.budget(snapshot.tables, rows, alone=few is not None)

    def handle_refusal(
        self, state: State, error: TableBusy | SchemaChanged, *, behind: bool = False
    ) -> State:
        """Handle a window that could not be planned or opened.

        A window `behind` another is tried again later: the queue must not change under the one in front.
        """
        if behind:
            self.pauses.give_way()
            return state
        if isinstance(error, SchemaChanged):
            return self._handle_changed_schema(state, error)
        busy = _named(state, error)
        now_s = self._parts.clock()
        self.pauses.note_busy(busy[0].ticket if busy else 0, error)
        self.pauses.leave_alone(busy, now_s)
        self.pauses.begin(0.0 if busy else self._pace.backoff_s)
        return replace(state, snapshot=state.snapshot.postponed(busy))

    def _handle_changed_schema(self, state: State, error: SchemaChanged) -> State:
        """Measure the begun collections again. After `window_retries` failures in a row give up the table."""
        self._failures += 1
        pause_s = self._pace.pause_s(self._failures)
        self.pauses.begin(pause_s)
        if self._failures > self._pace.window_retries:
            self._failures = 0
            return self._give_up(state, _named(state, error) or state.snapshot.tables[:1], error)
        _log.warning("no window opens yet: %s; trying again in %.1f s", error, pause_s)
        return self._measuring.measure_again(state)


def _together(snapshot: Snapshot) -> Snapshot:
    """The first entries of the queue, up to one that is under another limit: a window is charged to one."""
    if not snapshot.tables:
        return snapshot
    first = lane(snapshot.tables[0])
    return replace(snapshot, tables=tuple(takewhile(lambda table: lane(table) == first, snapshot.tables)))


def _named(state: State, error: TidemarkError) -> Sequence[Table]:
    """The queue entries that an error is about."""
    return [table for table in state.snapshot.tables if table.target.collection == error.collection]


def _signals(snapshot: Snapshot, runs: Sequence[Run]) -> tuple[str, ...]:
    """What the signals of these runs are called, each once, in the order of the queue."""
    tickets = {run.ticket for run in runs}
    requests = (request for table in snapshot.tables if table.ticket in tickets for request in table.requests)
    return tuple(dict.fromkeys(request.id or request.signal for request in requests))


def _same_stage(snapshot: Snapshot, left: Snapshot, ahead: Sequence[Advance]) -> bool:
    """Whether what can be read now is of the stage of the window ahead.

    Of a blocking snapshot, only tables that are busy may be left. What comes behind it must wait for them:
    the stream stands still, and would never reach what such a window waits for.
    """
    front = snapshot.find(ahead[0].ticket)
    return not left.tables or front is None or left.tables[0].stage == front.stage


def _follows(snapshot: Snapshot, ahead: Sequence[Advance]) -> bool:
    """Whether a window may be read behind the one ahead.

    Both must be of one stage: a blocking snapshot that was asked for meanwhile leads the queue, and its
    window would hold the stream where the one ahead still waits for it. Keys may not be read again while
    their rows may be on their way.
    """
    left, front = once_emitted(snapshot, ahead).tables, snapshot.find(ahead[0].ticket)
    if not left or front is None or {left[0].stage, snapshot.tables[0].stage} != {front.stage}:
        return False
    progress = left[0].progress
    return progress is None or bool(progress.left or progress.points)
