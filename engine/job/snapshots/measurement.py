"""Measures collections: what there is to read of them, before the first window and after a change."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.errors import SignalError, TableBusy
from engine.job.snapshots.completion import unsteady_error
from engine.snapshot.changes.failures import remember_failures
from engine.snapshot.changes.moved_rows import with_moved
from engine.snapshot.extent import Extent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.job.parts import JobParts
    from engine.job.saved.state import State
    from engine.job.snapshots.pauses import Pauses
    from engine.job.snapshots.window_size import WindowSize
    from engine.model import Window
    from engine.snapshot.extent import Advance
    from engine.snapshot.queue import Snapshot
    from engine.snapshot.queue_entry import Table

_log = logging.getLogger("engine")
_MEASURED_AT_ONCE = 50
_MEASURED_FOR_S = 0.2
"""How long collections are measured before the stream goes on. Fifty are measured at once all the same."""
_CHANGED = 20
"""How often a collection is restarted because its definition has changed."""


class Measurement:
    """Measures the collections of the queue."""

    def __init__(self, job_parts: JobParts, pauses: Pauses, size: WindowSize) -> None:
        self._parts, self._pauses, self._size = job_parts, pauses, size
        self._changed: dict[int, int] = {}

    def measure_next(self, state: State, ahead: Sequence[Advance]) -> State:
        """Measure the next collections in the queue. Refuse those that can't be read."""
        left = once_emitted(state.snapshot.active, ahead).leading
        now_s = self._parts.clock()
        waiting = [
            table for table in left if table.progress is None and not self._pauses.is_left_alone(table, now_s)
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
                self._pauses.note_busy(table.ticket, extent)
                snapshot = snapshot.postponed([table])
                if any(other.priority < table.priority for other in snapshot.active.tables):
                    # It stays before lower priorities, which are read meanwhile.
                    self._pauses.leave_alone([table], now_s)
                if ahead:
                    self._pauses.give_way()
            else:
                snapshot = snapshot.with_extent(table.ticket, extent, now_ms)
        if all(table.progress is None for table in snapshot.active.tables):
            self._pauses.give_way()
        return replace(state, snapshot=self._with_hidden(snapshot))

    def measure_again(self, state: State) -> State:
        """Measure the begun collections again. Give up unreadable ones, restart those whose key changed."""
        begun = [table for table in state.snapshot.tables if table.progress is not None]
        extents = self._parts.source.tables().measure([table.target for table in begun])
        snapshot = state.snapshot
        for table, extent in zip(begun, extents, strict=True):
            if isinstance(extent, SignalError):
                self._parts.listener.failed(table, extent)
                snapshot = remember_failures(snapshot, [table])
            elif isinstance(extent, TableBusy):
                snapshot = snapshot.postponed([table])
            elif table.progress and table.progress.extent.key != extent.key:
                times = self._changed[table.ticket] = self._changed.get(table.ticket, 0) + 1
                if times > _CHANGED:
                    self._parts.listener.failed(table, unsteady_error(table, times))
                    snapshot = remember_failures(snapshot, [table])
                    continue
                _log.warning("the definition of %s has changed; it is read again", table.target.collection)
                snapshot = snapshot.with_extent(table.ticket, extent, table.progress.since_ms)
        return replace(state, snapshot=self._with_hidden(snapshot))

    def measure_with_bounds(self, state: State, window: Window) -> State:
        """If the window's only run read a collection whole, measure that collection again with bounds."""
        table = state.snapshot.find(window.runs[0].ticket)
        if len(window.runs) > 1 or window.runs[0].keys or table is None or table.progress is None:
            return state
        if not table.progress.extent.whole:
            return state
        (extent,) = self._parts.source.tables().measure([table.target], bounded=True)
        if not isinstance(extent, Extent) or not extent.ranges:
            return state  # what is empty by now stays whole
        bounded = state.snapshot.changed((table.ticket,), lambda entry: entry.bounded(extent))
        return replace(state, snapshot=self._with_hidden(bounded))

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
        most = self._size.most_rows(table, extent)
        return most is not None and extent.rows > most

    def _with_hidden(self, snapshot: Snapshot) -> Snapshot:
        """Add rows that measuring could not see yet. They may be past the greatest key that it found."""
        return with_moved(snapshot, self._parts.source.hidden_moves(snapshot.reading))


def once_emitted(snapshot: Snapshot, ahead: Sequence[Advance]) -> Snapshot:
    """The queue as it will be once the window ahead is emitted."""
    if not ahead:
        return snapshot
    snapshot = snapshot.advanced(*ahead)
    return snapshot.without(snapshot.done)
