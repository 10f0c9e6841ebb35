"""How collections leave the queue: completed, or failed with what they lack; each with its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.ports import SignalDesk
    from engine.snapshot import Snapshot, Table


def ended(snapshot: Snapshot, desk: SignalDesk) -> Snapshot:
    """The queue less the collections of which nothing is left to read."""
    for table in snapshot.done:
        if table.progress and table.progress.missing:
            error = SourceError(table.progress.missing[-1].why, place=str(table.target.collection))
            snapshot = gave_up(snapshot, desk, [table], error)
        else:
            desk.finished(table)
            snapshot = snapshot.without([table])
    return snapshot


def gave_up(snapshot: Snapshot, desk: SignalDesk, tables: Sequence[Table], error: SourceError) -> Snapshot:
    """The queue less collections that can't be read; what they lack is remembered."""
    for table in tables:
        desk.failed(table, error)
    return snapshot.gave_up(tables)


def restless(table: Table) -> SourceError:
    """Why a collection is given up whose last rows change faster than they can be read again."""
    left = len(table.progress.reread) if table.progress else 0
    return SourceError(
        f"{left} rows changed, without their unchanged large values, each time they were read again",
        place=str(table.target.collection),
        hint="set REPLICA IDENTITY FULL on the table, or ask again when it is quieter",
    )
