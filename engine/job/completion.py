"""How collections leave the queue: completed, or failed and remembered. Either way the signal is answered."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.errors import SourceError
from engine.isolation import incomplete

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.errors import GaveWay
    from engine.job.state import State
    from engine.ports import SignalDesk
    from engine.snapshot.queue import Table


def ended(state: State, desk: SignalDesk) -> State:
    """The state without the queued collections that are read to the end, each answered."""
    for table in state.snapshot.done:
        if table.progress and table.progress.missing:
            error = SourceError(table.progress.missing[-1].why, place=table.target.collection)
            state = gave_up(state, desk, [table], error)
            continue
        left = incomplete.completed(state.incomplete, table)
        desk.finished(table, _REPAIRED if left != state.incomplete else "")
        state = replace(state, snapshot=state.snapshot.without([table]), incomplete=left)
    return state


_REPAIRED = "the gap in its log is closed, but rows deleted in the gap were not reported"


def gave_up(state: State, desk: SignalDesk, tables: Sequence[Table], error: SourceError) -> State:
    """The state without queued collections that can't be read. What they lack is remembered."""
    for table in tables:
        desk.failed(table, error)
    return replace(state, snapshot=state.snapshot.gave_up(tables))


def overrun(table: Table) -> SourceError:
    """The error for a collection of which, time and again, more rows may have moved than can be kept."""
    left = len(table.progress.reread) if table.progress else 0
    return SourceError(
        f"{left} rows may have moved while it was read, without their unchanged large values",
        place=table.target.collection,
        hint="set REPLICA IDENTITY FULL on the table, or ask again when it is quieter",
    )


def hindered(table: Table, error: GaveWay) -> SourceError:
    """The error for a collection that other sessions need so often that not even a chunk can be read."""
    return SourceError(
        f"{error.message}, time and again before a chunk was read",
        place=table.target.collection,
        hint="ask again when it is quieter, or with a smaller incremental.snapshot.chunk.size",
    )


def unsteady(table: Table, times: int) -> SourceError:
    """The error for a collection whose definition changes faster than it can be read."""
    return SourceError(
        f"its definition was changed {times} times while it was read, and each time it had to be read anew",
        place=table.target.collection,
        hint="ask again when its definition stays for a while",
    )


def restless(table: Table) -> SourceError:
    """The error for a collection whose last rows change faster than they can be read again."""
    left = len(table.progress.reread) if table.progress else 0
    return SourceError(
        f"{left} rows changed, without their unchanged large values, each time they were read again",
        place=table.target.collection,
        hint="set REPLICA IDENTITY FULL on the table, or ask again when it is quieter",
    )
