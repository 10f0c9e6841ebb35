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
from engine.job.snapshots.completion import ended, gave_up, hindered, overrun, unsteady
from engine.model import Window
from engine.snapshot.extent import Advance, Extent, gap_of
from engine.snapshot.failure_policy import FailureRecord, Remedy, Yielding
from engine.snapshot.merge_key import key_of
from engine.snapshot.pace.estimate import Speed
from engine.snapshot.pace.rate import Rate, reading_s
from engine.snapshot.pace.throttle import Throttle, lane
from engine.snapshot.plan import Budget, plan_window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.errors import GaveWay, SinkError
    from engine.job.parts import JobParts, Pace
    from engine.job.saved.state import State
    from engine.model import Limit, Run
    from engine.ports.source import Moved
    from engine.snapshot.queue import Snapshot
    from engine.snapshot.queue_entry import Table

_log = logging.getLogger("engine")
_MEASURED_AT_ONCE = 50
_MEASURED_FOR_S = 0.2
"""How long collections are measured before the stream goes on. Fifty are measured at once all the same."""
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
        self._throttle = Throttle(pace.limit, pace.window_s)
        self._chunk_rows, self._limited = pace.chunk_rows, True

    # Feedback from windows.

    def went_well(self, window: Window, rows: int, elapsed_s: float) -> None:
        """Note a window of `rows` rows that took `elapsed_s` from its opening to its last row."""
        self._failures = self._held_up = 0
        self._yielding = self._yielding.went_well(self._usual_rows())
        self._trouble = self._trouble.mended(window, self._usual_rows())
        self._rate = self._rate.learned(rows, elapsed_s)

    def opened(self, state: State, window: Window) -> None:
        """Note that a window has opened: what it is planned to read counts from now on."""
        table = state.snapshot.find(window.runs[0].ticket)
        if table is not None and table.progress is not None and self._limited:
            rows = sum(run.chunks for run in window.runs) * self._chunk_rows
            planned = (rows, int(rows * _row_bytes(table.progress.extent)))
            self._throttle.opened(window.id, table, planned, self._parts.clock())

    def read(self, window: Window, rows: int, size: int) -> None:
        """Note what a window has read, now that all its rows are staged."""
        self._throttle.read(window.id, rows, size)

    def closed(self, window: Window) -> None:
        """Note that a window was given up."""
        self._throttle.given_up(window.id)

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
                return ended(state, self._parts)
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
        if not isinstance(extent, Extent) or not extent.ranges:
            # What is empty by now is read whole: a window tells when the stream has passed what emptied it.
            return state
        return replace(state, snapshot=self._with_hidden(state.snapshot.bounded(table.ticket, extent)))

    def _given_up(self, state: State, tables: Sequence[Table], error: SourceError) -> State:
        return gave_up(state, self._parts.listener, tables, error)

    # The next window.

    def next(self, state: State, lag_s: float, ahead: Sequence[Advance] = ()) -> tuple[State, Window | None]:
        """The window to open now, if there is something to read and the stream keeps up.

        `ahead` is what the window in front has read but not emitted yet.
        """
        now_s, active = self._parts.clock(), state.snapshot.active
        self._throttle.follow(active.tables, now_s)
        if not active.tables or now_s < self._open_after_s:
            return state, None
        if lag_s > self._pace.max_lag_s:
            self._note_lag(lag_s, now_s)
            self._open_after_s = now_s + 1.0
            return state, None
        self._lagging_since_s = None
        if ahead and not _follows(active, ahead):
            return state, None
        if self._throttled(state, active, now_s):
            return state, None
        state = self._measured(state, ahead)
        state = ended(state, self._parts)
        active = state.snapshot.active
        try:
            snapshot = _together(_after(self._free(active), ahead))
            budget = self._budget(snapshot.tables)
            runs = plan_window(snapshot, budget, self._parts.source.tables().boundaries)
            self._chunk_rows = budget.chunk_rows
        except (TableBusy, SchemaChanged) as error:
            return self.refused(state, error, behind=bool(ahead)), None
        if ahead:
            runs = tuple(takewhile(lambda run: not run.keys, runs))
        return state, Window(self._parts.new_id(), runs, _signals(snapshot, runs)) if runs else None

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

    def _throttled(self, state: State, active: Snapshot, now_s: float) -> bool:
        """Whether the job's limit allows no window yet.

        A snapshot for which the log waits is not limited: it would hold its transaction for longer.
        """
        self._limited = not (active.tables[0].target.as_initial and self._parts.source.holds_log(state))
        return self._limited and self._throttle.job_waits(now_s)

    def _free(self, snapshot: Snapshot) -> Snapshot:
        """The queue without collections that rest or must wait, nor busy ones while others can be read."""
        now_s, stage = self._parts.clock(), snapshot.tables[0].stage if snapshot.tables else None
        self._resting = {ticket: until_s for ticket, until_s in self._resting.items() if until_s > now_s}
        snapshot = snapshot.without(
            table
            for table in snapshot.tables
            if table.ticket in self._resting or self._throttle.waits(table, now_s)
        )
        if not snapshot.tables or snapshot.tables[0].stage != stage:
            return replace(snapshot, tables=())
        self._aside = {ticket: until_s for ticket, until_s in self._aside.items() if until_s > now_s}
        free = snapshot.without(table for table in snapshot.tables if table.ticket in self._aside)
        if free.tables and free.tables[0].stage == snapshot.tables[0].stage:
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
                self._parts.listener.failed(table, extent)
                snapshot = snapshot.gave_up([table])
            elif isinstance(extent, TableBusy):
                snapshot = snapshot.postponed([table])
            elif table.progress and table.progress.extent.key != extent.key:
                times = self._changed[table.ticket] = self._changed.get(table.ticket, 0) + 1
                if times > _CHANGED:
                    self._parts.listener.failed(table, unsteady(table, times))
                    snapshot = snapshot.gave_up([table])
                    continue
                _log.warning("the definition of %s has changed; it is read anew", table.target.collection)
                snapshot = snapshot.began(table.ticket, extent, table.progress.since_ms)
        return replace(state, snapshot=self._with_hidden(snapshot))

    def _measured(self, state: State, ahead: Sequence[Advance]) -> State:
        """Measure the next collections in the queue. Refuse those that can't be read."""
        left = _after(state.snapshot.active, ahead).leading
        now_s = self._parts.clock()
        waiting = [
            table
            for table in left
            if table.progress is None and now_s >= self._aside.get(table.ticket, now_s)
        ]
        if not waiting:
            return state
        if len(waiting) < len(left):
            waiting = waiting[:1]
        extents = self._extents(waiting)
        waiting = waiting[: len(extents)]
        snapshot, now_ms = state.snapshot, int(self._parts.now() * 1000)
        for table, extent in zip(waiting, extents, strict=True):
            if isinstance(extent, SignalError):
                self._parts.listener.failed(table, extent)
                snapshot = snapshot.without([table])
            elif isinstance(extent, TableBusy):
                self._note_busy(table.ticket, extent)
                snapshot = snapshot.postponed([table])
                if any(other.priority < table.priority for other in snapshot.active.tables):
                    # It stays before lower priorities, which are read meanwhile.
                    self._aside[table.ticket] = now_s + _ASIDE * self._pace.backoff_s
                if ahead:
                    self.gave_way()
            else:
                snapshot = snapshot.began(table.ticket, extent, now_ms)
        if all(table.progress is None for table in snapshot.active.tables):
            self._open_after_s = self._parts.clock() + self._pace.backoff_s
        return replace(state, snapshot=self._with_hidden(snapshot))

    def _extents(self, tables: Sequence[Table]) -> list[Extent | SignalError | TableBusy]:
        """Measure the first of these collections: as many as the stream can wait for."""
        found: list[Extent | SignalError | TableBusy] = []
        until_s = self._parts.clock() + _MEASURED_FOR_S
        while len(found) < len(tables) and (not found or self._parts.clock() < until_s):
            some = tables[len(found) : len(found) + _MEASURED_AT_ONCE]
            found += self._cut_small(some, self._parts.source.tables().measure([t.target for t in some]))
        return found

    def _cut_small(
        self, tables: Sequence[Table], extents: Sequence[Extent | SignalError | TableBusy]
    ) -> list[Extent | SignalError | TableBusy]:
        """The extents, with bounds where a whole collection has more rows than a limit allows a window."""
        found = list(extents)
        large = [at for at, extent in enumerate(found) if self._is_large(tables[at], extent)]
        if large:
            bounded = self._parts.source.tables().measure([tables[at].target for at in large], bounded=True)
            for at, extent in zip(large, bounded, strict=True):
                found[at] = extent
        return found

    def _is_large(self, table: Table, extent: Extent | SignalError | TableBusy) -> bool:
        if not isinstance(extent, Extent) or not extent.whole:
            return False
        most = self._most_rows(table, extent)
        return most is not None and extent.rows > most

    def speed(self, limit: Limit, extent: Extent) -> Speed:
        """How fast a collection would be read within a limit and the job's."""
        usual = self._rate.rows_per_s or self._pace.window_rows / self._pace.window_s
        allowed = self._throttle.speed(limit, usual, _row_bytes(extent))
        return Speed(allowed, assumed=allowed == usual and not self._rate.rows_per_s)

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

    def _budget(self, tables: Sequence[Table]) -> Budget:
        """What a window that begins with the first of these entries may read."""
        pace, few = self._pace, self._trouble.rows
        rows = self._yielding.least(self._usual_rows() if few is None else few)
        first = tables[0].progress if tables else None
        most = self._most_rows(tables[0], first.extent) if first else None
        if most is not None:
            rows = min(rows, most)
        return Budget(
            rows=rows,
            bytes=pace.window_bytes,
            tasks=self._parts.tasks(),
            chunk_rows=pace.chunk_rows if most is None else min(pace.chunk_rows, rows),
            chunks=pace.max_chunks,
            alone=few is not None,
            strict=most is not None,
        )

    def _most_rows(self, table: Table, extent: Extent) -> int | None:
        """How many rows a window of an entry may have by the limits; None: any number."""
        if not self._limited:
            return None
        period_s = reading_s(self._pace.window_s, self._waited_s, self._pace.longest_window_s)
        return self._throttle.most_rows(table, _row_bytes(extent), period_s)


def _row_bytes(extent: Extent) -> float:
    """The estimated size of a row."""
    return extent.bytes / max(extent.rows, 1)


def _together(snapshot: Snapshot) -> Snapshot:
    """The first entries of the queue, up to one that is under another limit: a window is charged to one."""
    if not snapshot.tables:
        return snapshot
    first = lane(snapshot.tables[0])
    return replace(snapshot, tables=tuple(takewhile(lambda table: lane(table) == first, snapshot.tables)))


def _named(state: State, error: TidemarkError) -> Sequence[Table]:
    """The queue entries that an error is about."""
    return [table for table in state.snapshot.tables if table.target.collection == error.collection]


def _after(snapshot: Snapshot, ahead: Sequence[Advance]) -> Snapshot:
    """The queue as it will be once the window ahead is emitted."""
    if not ahead:
        return snapshot
    snapshot = snapshot.advanced(*ahead)
    return snapshot.without(snapshot.done)


def _signals(snapshot: Snapshot, runs: Sequence[Run]) -> tuple[str, ...]:
    """What the signals of these runs are called, each once, in the order of the queue."""
    tickets = {run.ticket for run in runs}
    requests = (request for table in snapshot.tables if table.ticket in tickets for request in table.requests)
    return tuple(dict.fromkeys(request.id or request.signal for request in requests))


def _follows(snapshot: Snapshot, ahead: Sequence[Advance]) -> bool:
    """Whether a window may be read behind the one ahead.

    Both must be of one stage: a blocking snapshot that was asked for meanwhile leads the queue, and its
    window would hold the stream where the one ahead still waits for it. Keys may not be read again while
    their rows may be on their way.
    """
    left, front = _after(snapshot, ahead).tables, snapshot.find(ahead[0].ticket)
    if not left or front is None or {left[0].stage, snapshot.tables[0].stage} != {front.stage}:
        return False
    progress = left[0].progress
    return progress is None or bool(progress.left or progress.points)


def with_moved(snapshot: Snapshot, moved: Moved) -> Snapshot:
    """Add rows to the queue that may have moved and lack a value (`Encoded.moved`)."""
    for collection, pairs in moved.items():
        keys = frozenset((None if old is None else key_of(old), key_of(new)) for old, new in pairs)
        snapshot = snapshot.moved(collection, keys)
    return snapshot
