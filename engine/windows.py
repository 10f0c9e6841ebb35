"""The snapshot's side of a turn: which window is open, when its rows may go out, when the next opens.

Owns the one window in progress, what has superseded its rows so far, and what was learnt of the speed.
The merge rule is `merge.py`'s, which keys to read `plan.py`'s, what to do about a failure `trouble.py`'s;
saving and sending are the job's.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never
from uuid import uuid4

from engine.errors import SchemaChanged, SignalError, SourceError, TableBusy, TidemarkError
from engine.merge_key import key_of, merge_keys_of
from engine.model import Window
from engine.plan import Budget, plan_window
from engine.rate import Rate
from engine.snapshot import Advance, Extent, gap_of
from engine.staging import Emission
from engine.trouble import Remedy, Trouble

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.merge import Superseded
    from engine.model import Staged
    from engine.ports import OpenWindow, PartWriter
    from engine.seams import Pace, Seams
    from engine.snapshot import Snapshot, Table
    from engine.staging import Emitted
    from engine.state import State

_log = logging.getLogger("engine")
_MEASURED_AT_ONCE = 500
_LAG_TOLD_AFTER_S = 2.0


@dataclass(slots=True)
class _Opened:
    """The window in progress: what was planned, and what has superseded its rows so far."""

    window: Window
    reading: OpenWindow
    superseded: Superseded
    since_s: float


class Windows:
    """Opens one window after the other and emits what survives of each."""

    def __init__(self, seams: Seams, pace: Pace) -> None:
        self._seams, self._pace = seams, pace
        self._opened: _Opened | None = None
        self._rate = Rate()
        self._trouble = Trouble()
        self._failures = 0
        self._open_after_s = 0.0
        self._lagging_since_s: float | None = None
        self._lag_told = False

    @property
    def window(self) -> Window | None:
        """The window in progress."""
        return self._opened.window if self._opened else None

    def close(self) -> None:
        """Give up the window in progress; its rows are read again."""
        if self._opened is not None:
            self._opened.reading.close()
            self._opened = None

    def drop(self, tables: Sequence[Table]) -> None:
        """Give up the window if it reads one of these entries of the queue."""
        gone = {table.ticket for table in tables}
        if self._opened and any(run.ticket in gone for run in self._opened.window.runs):
            self.close()

    # Emitting.

    def poll(self, state: State) -> tuple[State, Sequence[Staged] | None]:
        """The window's staged rows once all are read; deals with a window that failed."""
        opened = self._opened
        if opened is None:
            return state, None
        try:
            return state, opened.reading.poll()
        except SchemaChanged as error:
            _log.warning("window %s is given up and will be read again: %s", opened.window.id, error)
            self.close()
            # Whoever waits for the tables goes first.
            self._open_after_s = self._seams.now() + self._pace.backoff_s
        except SourceError as error:
            state = self._failed(state, opened.window, error)
        return state, None

    def may_emit(self, state: State, staged: Sequence[Staged] | None) -> bool:
        """Whether the staged rows may go out at the state's position."""
        if self._opened is None or staged is None or state.position is None:
            return False
        return self._opened.reading.reached(state.position)

    def supersede(self, superseded: Superseded) -> None:
        """Count what a span has brought for the open window."""
        if self._opened is not None:
            self._opened.superseded |= superseded

    def emit(
        self, state: State, staged: Sequence[Staged] | None, writer: PartWriter, first_part: int
    ) -> tuple[State, int]:
        """Write what survives, if its watermark is reached, as parts from `first_part` on.

        Gives the state with the progress recorded, and the READ events written.
        """
        opened = self._opened
        if opened is None or staged is None or not self.may_emit(state, staged):
            return state, 0
        self._failures = 0
        self._trouble = self._trouble.mended(self._usual_rows())
        emissions = [
            Emission(one, opened.superseded.of(one.collection), part)
            for part, one in enumerate(staged, first_part)
        ]
        emitted = self._write(emissions, writer)
        state = self._record(state, opened, staged, emitted)
        rows = sum(one.rows for one in staged)
        self._rate = self._rate.learned(rows, self._seams.now() - opened.since_s)
        self.close()
        return state, sum(one.rows for one in emitted)

    def _write(self, emissions: Sequence[Emission], writer: PartWriter) -> list[Emitted]:
        if sum(emission.staged.rows for emission in emissions) <= self._seams.local_rows:
            return [emission.write(writer) for emission in emissions]
        return self._seams.executors.map(EmitTo(writer), emissions)

    def _record(
        self, state: State, opened: _Opened, staged: Sequence[Staged], emitted: Sequence[Emitted]
    ) -> State:
        snapshot = state.snapshot
        results = list(zip(staged, emitted, strict=True))
        for ticket in dict.fromkeys(run.ticket for run in opened.window.runs):
            mine = [(read, sent) for read, sent in results if read.ticket == ticket]
            snapshot = snapshot.advanced(_advance(opened, ticket, mine))
            snapshot = self._restless(snapshot, ticket)
        return replace(state, snapshot=self._ended(snapshot))

    def _ended(self, snapshot: Snapshot) -> Snapshot:
        """Answer for the collections of which nothing is left to read, and take them out of the queue."""
        for table in snapshot.done:
            if table.progress and table.progress.missing:
                error = SourceError(table.progress.missing[-1].why, place=str(table.target.collection))
                self._seams.desk.failed(table, error)
                snapshot = snapshot.gave_up([table])
            else:
                self._seams.desk.finished(table)
                snapshot = snapshot.without([table])
        return snapshot

    def _restless(self, snapshot: Snapshot, ticket: int) -> Snapshot:
        """Take a collection out of the queue whose last rows change faster than they can be read."""
        table = snapshot.find(ticket)
        if table is None or table.progress is None or table.progress.rounds < self._pace.reread_rounds:
            return snapshot
        if table.progress.done:
            return snapshot
        left = len(table.progress.reread)
        error = SourceError(
            f"{left} rows changed, without their unchanged large values, each time they were read again",
            place=str(table.target.collection),
            hint="set REPLICA IDENTITY FULL on the table, or ask again when it is quieter",
        )
        self._seams.desk.failed(table, error)
        return snapshot.gave_up([table])

    def _failed(self, state: State, window: Window, error: SourceError) -> State:
        """Deal with a window whose rows could not be read."""
        self.close()
        chunk_rows, retries = self._pace.chunk_rows, self._pace.window_retries
        self._trouble, remedy = self._trouble.failed(window, chunk_rows, retries)
        pause_s = self._pace.pause_s(self._trouble.failures or 1)
        self._open_after_s = self._seams.now() + pause_s
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
                return replace(state, snapshot=self._ended(state.snapshot.advanced(lost)))
            case Remedy.GIVE_UP_COLLECTION:
                table = state.snapshot.find(run.ticket)
                return self._give_up(state, [table] if table else [], error)
            case _:
                assert_never(remedy)

    def _bounded(self, state: State, window: Window) -> State:
        """Measure a collection again that was read whole by the one run of a window: it must be cut now."""
        table = state.snapshot.find(window.runs[0].ticket)
        if len(window.runs) > 1 or table is None or table.progress is None or not table.progress.extent.whole:
            return state
        (extent,) = self._seams.source.tables().measure([table.target], bounded=True)
        if not isinstance(extent, Extent):
            return state
        return replace(state, snapshot=state.snapshot.bounded(table.ticket, extent))

    def _give_up(self, state: State, tables: Sequence[Table], error: SourceError) -> State:
        for table in tables:
            self._seams.desk.failed(table, error)
        return replace(state, snapshot=state.snapshot.gave_up(tables))

    # Opening.

    def consider(self, state: State, lag_s: float) -> State:
        """Open the next window if there is something to read and the stream keeps up."""
        now_s = self._seams.now()
        if self._opened or not state.snapshot.tables or now_s < self._open_after_s:
            return state
        if lag_s > self._pace.max_lag_s:
            self._note_lag(lag_s, now_s)
            self._open_after_s = now_s + 1.0
            return state
        self._lagging_since_s = None
        try:
            return self._next(state)
        except TableBusy as error:
            _log.info("no window opens yet: %s", error)
            self._open_after_s = now_s + self._pace.backoff_s
            return replace(state, snapshot=state.snapshot.postponed(_named(state, error)))
        except SchemaChanged as error:
            return self._not_as_planned(state, error)

    def _next(self, state: State) -> State:
        state = self._measured(state)
        state = replace(state, snapshot=self._ended(state.snapshot))
        runs = plan_window(state.snapshot, self._budget(), self._seams.source.tables().boundaries)
        if not runs:
            return state
        self._open(Window(str(uuid4()), runs, state.snapshot.tables[0].initial))
        tickets = {run.ticket for run in runs}
        return replace(state, snapshot=state.snapshot.opened(tickets, int(self._seams.now() * 1000)))

    def _not_as_planned(self, state: State, error: SchemaChanged) -> State:
        """Look again at what has begun; give up what fails time and again."""
        self._failures += 1
        pause_s = self._pace.pause_s(self._failures)
        self._open_after_s = self._seams.now() + pause_s
        if self._failures > self._pace.window_retries:
            self._failures = 0
            return self._give_up(state, _named(state, error) or state.snapshot.tables[:1], error)
        _log.warning("no window opens yet: %s; trying again in %.1f s", error, pause_s)
        return self._checked(state)

    def _note_lag(self, lag_s: float, now_s: float) -> None:
        """Say once that windows wait, when it is no passing thing."""
        if self._lagging_since_s is None:
            self._lagging_since_s, self._lag_told = now_s, False
        if not self._lag_told and now_s - self._lagging_since_s > _LAG_TOLD_AFTER_S:
            self._lag_told = True
            _log.info(
                "no window opens while the stream lags %.1f s; tidemark.max.lag.ms allows %d ms",
                lag_s,
                round(1000 * self._pace.max_lag_s),
            )

    def _open(self, window: Window) -> None:
        since_s = self._seams.now()
        reading = self._seams.source.open_window(window)
        self._opened = _Opened(window, reading, reading.superseded, since_s)

    def _checked(self, state: State) -> State:
        """Measure again what has begun; drop what can't be read any more, begin anew under a new key."""
        begun = [table for table in state.snapshot.tables if table.progress is not None]
        extents = self._seams.source.tables().measure([table.target for table in begun])
        snapshot = state.snapshot
        for table, extent in zip(begun, extents, strict=True):
            if isinstance(extent, SignalError):
                self._seams.desk.failed(table, extent)
                snapshot = snapshot.without([table])
            elif isinstance(extent, TableBusy):
                snapshot = snapshot.postponed([table])
            elif table.progress and table.progress.extent.key != extent.key:
                _log.warning("the key of %s has changed; it is read anew", table.target.collection)
                snapshot = snapshot.began(table.ticket, extent, table.progress.since_ms)
        return replace(state, snapshot=snapshot)

    def _measured(self, state: State) -> State:
        """Measure the collections that come next in the queue; refuse those that can't be read."""
        waiting = [table for table in state.snapshot.tables if table.progress is None]
        if len(waiting) < len(state.snapshot.tables):
            waiting = waiting[:1]
        waiting = waiting[:_MEASURED_AT_ONCE]
        extents = self._seams.source.tables().measure([table.target for table in waiting])
        snapshot, now_ms = state.snapshot, int(self._seams.now() * 1000)
        for table, extent in zip(waiting, extents, strict=True):
            if isinstance(extent, SignalError):
                self._seams.desk.failed(table, extent)
                snapshot = snapshot.without([table])
            elif isinstance(extent, TableBusy):
                _log.info("%s", extent)
                snapshot = snapshot.postponed([table])
            else:
                snapshot = snapshot.began(table.ticket, extent, now_ms)
        # What was hidden from the measuring may be past the greatest key that it found.
        for collection, keys in self._seams.source.hidden_moves().items() if waiting else ():
            snapshot = snapshot.moved(collection, frozenset(key_of(key) for key in keys))
        return replace(state, snapshot=snapshot)

    def _usual_rows(self) -> int:
        rows = int(self._rate.rows_per_s * self._pace.window_s) or self._pace.window_rows
        return max(rows, self._pace.chunk_rows)

    def _budget(self) -> Budget:
        pace, few = self._pace, self._trouble.rows
        return Budget(
            rows=self._usual_rows() if few is None else few,
            bytes=pace.window_bytes,
            tasks=pace.tasks,
            chunk_rows=pace.chunk_rows,
            chunks=pace.max_chunks,
            alone=few is not None,
        )


def _advance(opened: _Opened, ticket: int, results: Sequence[tuple[Staged, Emitted]]) -> Advance:
    runs = tuple(run for run in opened.window.runs if run.ticket == ticket)
    dropped = [key for _read, sent in results for key in sent.lacking]
    asked = [key for run in runs for key in run.keys]
    reread = merge_keys_of(asked)
    unsent = opened.superseded.unsent(runs[0].target.collection, dropped, reread)
    return Advance(
        ticket=ticket,
        runs=runs,
        rows=sum(read.rows for read, _sent in results),
        emitted=sum(sent.rows for _read, sent in results),
        lacking=frozenset(key_of(key) for key in unsent),
    )


def _named(state: State, error: TidemarkError) -> Sequence[Table]:
    """The entries of the queue that an error is about."""
    return [table for table in state.snapshot.tables if str(table.target.collection) == error.place]


@dataclass(frozen=True, slots=True)
class EmitTo:
    """The task that writes one emission; goes to the executors."""

    writer: PartWriter

    def __call__(self, emission: Emission) -> Emitted:
        """Write it."""
        return emission.write(self.writer)
