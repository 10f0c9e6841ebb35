"""How collections leave the queue: completed, or failed and remembered. Either way the signal is answered.

Also notes the steps before: that rows of a collection were read for the first time, and each tenth of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.errors import SourceError
from engine.isolation import incomplete
from engine.snapshot.changes.failures import remember_failures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.errors import GaveWay
    from engine.job.parts import JobParts
    from engine.job.saved.state import State
    from engine.ports.desk import SnapshotListener
    from engine.snapshot.queue_entry import Table


def end_completed(state: State, parts: JobParts) -> State:
    """End the queued collections that are read to the end, each answered and certified; returns the state.

    Those that end with a verdict stay until `verification.py` has one.
    """
    for table in state.snapshot.done:
        if table.progress and table.progress.missing:
            error = SourceError(table.progress.missing[-1].why, where=table.target.collection)
            state = give_up(state, parts.listener, [table], error)
            continue
        if table.target.judged:
            continue
        left = incomplete.without_completed(state.incomplete, table)
        if left != state.incomplete and table.initial and not _is_captured(table, parts):
            left = state.incomplete
        if parts.certificates is not None:
            state = parts.certificates.issue(state, table, parts.notices.collections)
        parts.listener.finished(table, _REPAIRED if left != state.incomplete else "")
        state = replace(state, snapshot=state.snapshot.without([table]), incomplete=left)
    return state


def _is_captured(table: Table, parts: JobParts) -> bool:
    """Whether the log still has the collection. Initial entries are read although it may not."""
    return table.target.collection in parts.source.tables().captured()


def note_steps(before: Table | None, after: Table | None, listener: SnapshotListener) -> None:
    """Note what a slice has brought a collection to; None: it is not in the queue any more."""
    if before is None or after is None or before.progress is None or after.progress is None:
        return
    if not before.progress.chunks:
        listener.started(after)
    tenth = int(after.progress.fraction_read * _TENTHS)
    if int(before.progress.fraction_read * _TENTHS) < tenth < _TENTHS:
        listener.progress(after, tenth * 100 // _TENTHS)


_TENTHS = 10
_REPAIRED = "the gap in its log is closed, but rows deleted in the gap were not reported"


def give_up(state: State, listener: SnapshotListener, tables: Sequence[Table], error: SourceError) -> State:
    """Give up queued collections that can't be read; returns the state, which remembers what they lack."""
    for table in tables:
        listener.failed(table, error)
    return replace(state, snapshot=remember_failures(state.snapshot, tables))


def overrun_error(table: Table) -> SourceError:
    """The error for a collection of which, time and again, more rows may have moved than can be kept."""
    return _unread(table, "may have moved while it was read, without their unchanged large values")


def hindered_error(table: Table, error: GaveWay) -> SourceError:
    """The error for a collection that other sessions need so often that not even a chunk can be read."""
    return SourceError(
        f"{error.message}, time and again before a chunk was read",
        where=table.target.collection,
        hint="ask again when it is quieter, or with a smaller incremental.snapshot.chunk.size",
    )


def unsteady_error(table: Table, times: int) -> SourceError:
    """The error for a collection whose definition changes faster than it can be read."""
    return SourceError(
        f"its definition was changed {times} times while it was read, and each time it had to be read again",
        where=table.target.collection,
        hint="ask again when its definition stays for a while",
    )


def restless_error(table: Table) -> SourceError:
    """The error for a collection whose last rows change faster than they can be read again."""
    return _unread(table, "changed, without their unchanged large values, each time they were read again")


def _unread(table: Table, what: str) -> SourceError:
    """The error for rows that are kept to be read again."""
    left = len(table.progress.reread) if table.progress else 0
    return SourceError(
        f"{left} rows {what}",
        where=table.target.collection,
        hint="set REPLICA IDENTITY FULL on the table, or ask again when it is quieter",
    )
