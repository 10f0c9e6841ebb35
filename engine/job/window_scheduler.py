"""Decides which window opens next, and when: measuring, budgets, pauses, and reactions to failures.

Owns the pace at which windows open. `plan.py` cuts a window to its budget, `failure_policy.py` has the policy
about failures, and `windows.py` owns the windows in progress.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, assert_never

from engine.errors import (
    LoginRefused,
    SchemaChanged,
    SignalError,
    SnapshotGone,
    SourceError,
    TableBusy,
    TidemarkError,
)
from engine.job.completion import ended, gave_up, hindered, overrun, unsteady
from engine.model import Window
from engine.snapshot.extent import Advance, Extent, gap_of
from engine.snapshot.failure_policy import FailureRecord, Remedy, Yielding
from engine.snapshot.merge_key import key_of
from engine.snapshot.plan import Budget, plan_window
from engine.snapshot.rate import Rate, reading_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.errors import GaveWay, SinkError
    from engine.job.parts import JobParts, Pace
    from engine.job.state import State
    from engine.ports import Moved
    from engine.snapshot.queue import Snapshot, Table

_log = logging.getLogger("engine")
_MEASURED_AT_ONCE = 500
_LAG_TOLD_AFTER_S = 2.0
_ANEW = 3
"""How often a collection is restarted because too many of its rows may have moved."""
_CHANGED = 20
"""How often a collection is restarted because its definition has changed."""
_ASIDE = 4
"""How long a busy collection is left alone, as a multiple of `backoff_s`."""


class WindowScheduler:
    """Decides which window opens next, and when."""

    def __init__(self, job_parts: JobParts, pace: Pace) -> None:
        self._parts, self._pace = job_parts, pace
        self._rate = Rate()
        self._waited_s = 0.0
        self._trouble, self._yielding = FailureRecord(), Yielding()
        self._failures = self._held_up = 0
        self._open_after_s = 0.0
        self._lagging_since_s: float | None = None
        self._lag_told = False
        self._busy: dict[int, str] = {}
        self._aside: dict[int, float] = {}
        self._anew: dict[int, int] = {}
        self._changed: dict[int, int] = {}
        self._resting: dict[int, float] = {}

    # Feedback from windows.

    def went_well(self, window: Window, rows: int, elapsed_s: float) -> None:
        """Note a window of `rows` rows that took `elapsed_s` from its opening to its last row."""
        self._failures = self._held_up = 0
        self._yielding = self._yielding.went_well(self._usual_rows())
        self._trouble = self._trouble.mended(window, self._usual_rows())
        self._rate = self._rate.learned(rows, elapsed_s)

    def waited(self, seconds: float) -> None:
        """Note how long a window's rows waited for the stream. Longer waits make for larger windows."""
        self._waited_s = seconds if not self._waited_s else (self._waited_s + seconds) / 2

    def gave_way(self) -> None:
        """Open no window for `backoff_s`, so that sessions that wait for the tables go first."""
        self._open_after_s = self._parts.clock() + self._pace.backoff_s

    def rest(self, table: Table) -> None:
        """Pause a collection whose last rows changed while they were read again, longer each time."""
        rounds = table.progress.rounds if table.progress else 1
        self._resting[table.ticket] = self._parts.clock() + self._pace.pause_s(rounds)

    def yielded(self, state: State, window: Window, error: GaveWay, *, behind: bool) -> State:
        """Handle a window that gave way to a waiting session: read less next time, or give up its table.

        A window `behind` another must not change the queue.
        """
        self._yielding = self._yielding.gave_way(window, self._pace.chunk_rows)
        self.gave_way()
        table = state.snapshot.find(window.runs[0].ticket)
        if self._yielding.hopeless and table is not None and not behind:
            self._yielding = Yielding()
            return self._given_up(state, [table], hindered(table, error))
        _log.warning(
            "window %s is given up and will be read again, %d rows at once: %s",
            *(window.id, self._yielding.least(self._usual_rows()), error),
        )
        return state if behind else self._bounded(state, window)

    def held_up(self, error: SinkError | LoginRefused) -> None:
        """Wait for room to stage rows, or for a valid credential, longer each time. No row is left out."""
        self._held_up += 1
        pause_s = self._pace.pause_s(self._held_up)
        self._open_after_s = self._parts.clock() + pause_s
        _log.warning("%s; the window is read again in %.1f s", error, pause_s)

    def failed(self, state: State, window: Window, error: SourceError) -> State:
        """Handle a window whose rows could not be read."""
        chunk_rows, retries = self._pace.chunk_rows, self._pace.window_retries
        too_slow = isinstance(error, SnapshotGone)
        self._trouble, remedy = self._trouble.failed(window, chunk_rows, retries, smaller=too_slow)
        pause_s = self._pace.pause_s(self._trouble.failures or 1)
        self._open_after_s = self._parts.clock() + pause_s
        run = window.runs[0]
        name = run.target.collection
        match remedy:
            case Remedy.AGAIN:
                _log.warning("%s; the window is read again in %.1f s", error, pause_s)
                return state
            case Remedy.SPLIT:
                _log.warning("%s; the window is split, to read %s rows at once", error, self._trouble.rows)
                return self._bounded(state, window)
            case Remedy.GIVE_UP_RUN:
                _log.error("%s; these rows of %s are left out: %s", error, name, gap_of(run))
                lost = Advance(run.ticket, (run,), why=str(error))
                state = replace(state, snapshot=state.snapshot.advanced(lost))
                return ended(state, self._parts.desk)
            case Remedy.GIVE_UP_COLLECTION:
                table = state.snapshot.find(run.ticket)
                return self._given_up(state, [table] if table else [], error)
            case _:
                assert_never(remedy)

    def crowded(self, state: State, tables: Sequence[Table]) -> State:
        """Restart collections with too many rows to read again; after 3 restarts give them up."""
        for table in tables:
            times = self._anew[table.ticket] = self._anew.get(table.ticket, 0) + 1
            if times > _ANEW:
                state = self._given_up(state, [table], overrun(table))
            else:
                _log.warning("%s; the table is read anew", overrun(table))
                state = replace(state, snapshot=state.snapshot.anew_of(table.target.collection))
        return state

    def _bounded(self, state: State, window: Window) -> State:
        """If the window's only run read a collection whole, measure that collection again with bounds."""
        table = state.snapshot.find(window.runs[0].ticket)
        if len(window.runs) > 1 or window.runs[0].keys or table is None or table.progress is None:
            return state
        if not table.progress.extent.whole:
            return state
        (extent,) = self._parts.source.tables().measure([table.target], bounded=True)
        if not isinstance(extent, Extent):
            return state
        return replace(state, snapshot=self._with_hidden(state.snapshot.bounded(table.ticket, extent)))

    def _given_up(self, state: State, tables: Sequence[Table], error: SourceError) -> State:
        return gave_up(state, self._parts.desk, tables, error)

    # The next window.

    def next(self, state: State, lag_s: float, ahead: Sequence[Advance] = ()) -> tuple[State, Window | None]:
        """The window to open now, if there is something to read and the stream keeps up.

        `ahead` is what the window in front has read but not emitted yet.
        """
        now_s, active = self._parts.clock(), state.snapshot.active
        if not active.tables or now_s < self._open_after_s:
            return state, None
        if lag_s > self._pace.max_lag_s:
            self._note_lag(lag_s, now_s)
            self._open_after_s = now_s + 1.0
            return state, None
        self._lagging_since_s = None
        if ahead and not _follows(active, ahead):
            return state, None
        state = self._measured(state, ahead)
        state = ended(state, self._parts.desk)
        active = state.snapshot.active
        try:
            snapshot = _after(self._free(active), ahead)
            runs = plan_window(snapshot, self._budget(), self._parts.source.tables().boundaries)
        except (TableBusy, SchemaChanged) as error:
            return self.refused(state, error, behind=bool(ahead)), None
        if ahead:
            initial = active.tables[0].initial
            runs = tuple(takewhile(lambda run: run.target.initial == initial and not run.keys, runs))
        return state, Window(self._parts.new_id(), runs) if runs else None

    def refused(self, state: State, error: TableBusy | SchemaChanged, *, behind: bool = False) -> State:
        """Handle a window that could not be planned or opened.

        A window `behind` another is tried again later: the queue must not change under the one in front.
        """
        if behind:
            self.gave_way()
            return state
        if isinstance(error, SchemaChanged):
            return self._not_as_planned(state, error)
        busy = _named(state, error)
        now_s = self._parts.clock()
        self._note_busy(busy[0].ticket if busy else 0, error)
        self._aside |= {table.ticket: now_s + _ASIDE * self._pace.backoff_s for table in busy}
        self._open_after_s = now_s + (0.0 if busy else self._pace.backoff_s)
        return replace(state, snapshot=state.snapshot.postponed(busy))

    def _free(self, snapshot: Snapshot) -> Snapshot:
        """The queue without resting collections, and without busy ones as long as others can be read."""
        now_s, initial = self._parts.clock(), snapshot.tables[0].initial if snapshot.tables else False
        self._resting = {ticket: until_s for ticket, until_s in self._resting.items() if until_s > now_s}
        snapshot = snapshot.without(table for table in snapshot.tables if table.ticket in self._resting)
        if not snapshot.tables or snapshot.tables[0].initial != initial:
            return replace(snapshot, tables=())
        self._aside = {ticket: until_s for ticket, until_s in self._aside.items() if until_s > now_s}
        free = snapshot.without(table for table in snapshot.tables if table.ticket in self._aside)
        if free.tables and free.tables[0].initial == snapshot.tables[0].initial:
            return free
        if not self._aside:
            return snapshot
        self._aside = {}
        self._open_after_s = now_s + self._pace.backoff_s
        return replace(snapshot, tables=())

    def _not_as_planned(self, state: State, error: SchemaChanged) -> State:
        """Measure the begun collections again. After `window_retries` failures in a row give up the table."""
        self._failures += 1
        pause_s = self._pace.pause_s(self._failures)
        self._open_after_s = self._parts.clock() + pause_s
        if self._failures > self._pace.window_retries:
            self._failures = 0
            return self._given_up(state, _named(state, error) or state.snapshot.tables[:1], error)
        _log.warning("no window opens yet: %s; trying again in %.1f s", error, pause_s)
        return self._checked(state)

    def _note_lag(self, lag_s: float, now_s: float) -> None:
        """Log once that windows wait, if the lag lasts longer than 2 s."""
        if self._lagging_since_s is None:
            self._lagging_since_s, self._lag_told = now_s, False
        if not self._lag_told and now_s - self._lagging_since_s > _LAG_TOLD_AFTER_S:
            self._lag_told = True
            _log.info(
                "no window opens while the stream lags %.1f s; tidemark.max.lag.ms allows %d ms",
                lag_s,
                round(1000 * self._pace.max_lag_s),
            )

    def _checked(self, state: State) -> State:
        """Measure the begun collections again. Give up unreadable ones, restart those whose key changed."""
        begun = [table for table in state.snapshot.tables if table.progress is not None]
        extents = self._parts.source.tables().measure([table.target for table in begun])
        snapshot = state.snapshot
        for table, extent in zip(begun, extents, strict=True):
            if isinstance(extent, SignalError):
                self._parts.desk.failed(table, extent)
                snapshot = snapshot.gave_up([table])
            elif isinstance(extent, TableBusy):
                snapshot = snapshot.postponed([table])
            elif table.progress and table.progress.extent.key != extent.key:
                times = self._changed[table.ticket] = self._changed.get(table.ticket, 0) + 1
                if times > _CHANGED:
                    self._parts.desk.failed(table, unsteady(table, times))
                    snapshot = snapshot.gave_up([table])
                    continue
                _log.warning("the definition of %s has changed; it is read anew", table.target.collection)
                snapshot = snapshot.began(table.ticket, extent, table.progress.since_ms)
        return replace(state, snapshot=self._with_hidden(snapshot))

    def _measured(self, state: State, ahead: Sequence[Advance]) -> State:
        """Measure the next collections in the queue. Refuse those that can't be read."""
        left = _after(state.snapshot.active, ahead).tables
        waiting = [table for table in left if table.progress is None]
        if not waiting:
            return state
        if len(waiting) < len(left):
            waiting = waiting[:1]
        waiting = waiting[:_MEASURED_AT_ONCE]
        extents = self._parts.source.tables().measure([table.target for table in waiting])
        snapshot, now_ms = state.snapshot, int(self._parts.now() * 1000)
        for table, extent in zip(waiting, extents, strict=True):
            if isinstance(extent, SignalError):
                self._parts.desk.failed(table, extent)
                snapshot = snapshot.without([table])
            elif isinstance(extent, TableBusy):
                self._note_busy(table.ticket, extent)
                snapshot = snapshot.postponed([table])
                if ahead:
                    self.gave_way()
            else:
                snapshot = snapshot.began(table.ticket, extent, now_ms)
        if all(table.progress is None for table in snapshot.active.tables):
            self._open_after_s = self._parts.clock() + self._pace.backoff_s
        return replace(state, snapshot=self._with_hidden(snapshot))

    def _with_hidden(self, snapshot: Snapshot) -> Snapshot:
        """Add rows that measuring could not see yet. They may be past the greatest key that it found."""
        return with_moved(snapshot, self._parts.source.hidden_moves(snapshot.reading))

    def _note_busy(self, ticket: int, error: TableBusy) -> None:
        """Log why a collection is kept waiting, once per reason."""
        if self._busy.get(ticket) != str(error):
            _log.warning("no window opens yet: %s", error)
        self._busy[ticket] = str(error)

    def _usual_rows(self) -> int:
        window_s = reading_s(self._pace.window_s, self._waited_s, self._pace.longest_window_s)
        rows = int(self._rate.rows_per_s * window_s) or self._pace.window_rows
        return max(rows, self._pace.chunk_rows)

    def _budget(self) -> Budget:
        pace, few = self._pace, self._trouble.rows
        return Budget(
            rows=self._yielding.least(self._usual_rows() if few is None else few),
            bytes=pace.window_bytes,
            tasks=pace.tasks,
            chunk_rows=pace.chunk_rows,
            chunks=pace.max_chunks,
            alone=few is not None,
        )


def _named(state: State, error: TidemarkError) -> Sequence[Table]:
    """The queue entries that an error is about."""
    return [table for table in state.snapshot.tables if table.target.collection == error.collection]


def _after(snapshot: Snapshot, ahead: Sequence[Advance]) -> Snapshot:
    """The queue as it will be once the window ahead is emitted."""
    if not ahead:
        return snapshot
    snapshot = snapshot.advanced(*ahead)
    return snapshot.without(snapshot.done)


def _follows(snapshot: Snapshot, ahead: Sequence[Advance]) -> bool:
    """Whether a window may be read behind the one ahead.

    Both must be initial, or neither. Keys may not be read again while their rows may be on their way.
    """
    left = _after(snapshot, ahead).tables
    if not left or left[0].initial != snapshot.tables[0].initial:
        return False
    return left[0].progress is None or bool(left[0].progress.left)


def with_moved(snapshot: Snapshot, moved: Moved) -> Snapshot:
    """Add rows to the queue that may have moved and lack a value (`Encoded.moved`)."""
    for collection, pairs in moved.items():
        keys = frozenset((None if old is None else key_of(old), key_of(new)) for old, new in pairs)
        snapshot = snapshot.moved(collection, keys)
    return snapshot
