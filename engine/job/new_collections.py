"""Announces and reads the collections and columns that became captured while the job runs.

A collection that was published, or enabled for CDC, had rows before that, and the log has none of them. So it
is read by an incremental snapshot of its own, whose id begins with `tidemark-new-`. Of one that was created
while it was captured the log has all rows, and it is only announced.

A column that is added with a default has values in rows that nobody changed, and the log has none of them. So
its collection is read again, under an id that also has the first such column.

The source saves what it knew with the turn that queues the new ones. So a crash before that turn makes the
next start find them again, and after it they are not found a second time.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.model import ExecuteSnapshot, Target
from engine.printable import first_named
from engine.snapshot.changes.commands import execute

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from engine.job.saved.state import State
    from engine.model import Arrival
    from engine.ports.desk import SnapshotListener

_log = logging.getLogger("engine")
_PREFIX = "tidemark-new-"


def with_new_collections(
    state: State,
    appeared: Sequence[Arrival],
    listener: SnapshotListener,
    reading: Collection[int],
    *,
    reads: bool,
) -> State:
    """The state with snapshots of what has appeared; `reading` are the tickets that windows read.

    Without `reads`, none of their rows are read: `snapshot.mode` takes no initial snapshot either.
    """
    for found in appeared:
        if found.told:
            _log.info("%s was created while it is captured; the log has all its rows", found.collection)
        elif not reads:
            _log.info("%s %s; by snapshot.mode no rows are read", found.collection, _why(found))
        elif not _queued(state, found, reading):
            state = _with_snapshot(state, found, listener, reading)
    return state


def _with_snapshot(
    state: State, found: Arrival, listener: SnapshotListener, reading: Collection[int]
) -> State:
    label, collection = _label(found), found.collection
    _log.info("%s %s; its rows are read by snapshot %s", collection, _why(found), label)
    snapshot = execute(state.snapshot, ExecuteSnapshot(label, (Target(collection),), label), reading)
    for table in snapshot.tables:
        if any(request.signal == label for request in table.requests):
            listener.appeared(table, label, _why(found))
    return replace(state, snapshot=snapshot)


def _queued(state: State, found: Arrival, reading: Collection[int]) -> bool:
    """Whether a snapshot that reads all of it is queued already.

    Of a collection: by an earlier look, or by the initial snapshot. Of columns only one that has not begun,
    since rows that were read before lack their values.
    """
    mine = [table for table in state.snapshot.tables if table.target.collection == found.collection]
    if found.columns:
        waiting = (table for table in mine if table.untouched and table.ticket not in reading)
        return any(request.signal.startswith(_PREFIX) for table in waiting for request in table.requests)
    label = _label(found)
    return any(table.initial or any(request.signal == label for request in table.requests) for table in mine)


def _label(found: Arrival) -> str:
    return "-".join((f"{_PREFIX}{found.collection}", *found.columns[:1]))


def _why(found: Arrival) -> str:
    if not found.columns:
        return "is captured from now on"
    return f"has new columns whose values in older rows are not in the log: {first_named(found.columns)}"
