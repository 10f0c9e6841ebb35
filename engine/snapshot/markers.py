"""Snapshot markers: which READ events of an initial or blocking snapshot are its first or last. Pure.

The values are Debezium's, in the source block's `snapshot` field; a row without a marker has "true". There is
no look-ahead: if the first table has no rows, no row is `first`. The same holds for the last table.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from engine.snapshot.extent import Advance

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from engine.model import Run, StagedRun
    from engine.snapshot.queue import Snapshot
    from engine.snapshot.queue_entry import Table


class Marker(StrEnum):
    """What a row can be. The order is the precedence if a row is several at once."""

    LAST = "last"
    FIRST = "first"
    LAST_OF_COLLECTION = "last_in_data_collection"
    FIRST_OF_COLLECTION = "first_in_data_collection"


@dataclass(frozen=True, slots=True)
class Markers:
    """The markers of the first and the last of some rows; None: that row has none."""

    first: Marker | None = None
    last: Marker | None = None

    def among(self, known: Collection[Marker]) -> Markers:
        """Only the markers that the source's events may carry."""
        first, last = (marker if marker in known else None for marker in (self.first, self.last))
        return Markers(first, last)

    @property
    def single(self) -> Marker | None:
        """The marker of a row that is both first and last."""
        both = [marker for marker in Marker if marker in {self.first, self.last}]
        return both[0] if both else None


NO_MARKERS = Markers()


def marks(snapshot: Snapshot, runs: Sequence[Run], staged: Sequence[StagedRun]) -> list[Markers]:
    """The markers of each file to be emitted now, of these runs of one stage.

    Tables count in reading order, which busy tables change. The first table is the one before which no rows
    came; the last is the one after which no table is left. Each database is a snapshot of its own.
    """
    found = [NO_MARKERS] * len(staged)
    stage = next((table.stage for table in snapshot.tables if runs and table.ticket == runs[0].ticket), None)
    together = [table for table in snapshot.tables if table.ordinal and table.stage == stage]
    tables = {table.ticket: table for table in together if table.progress}
    left = Counter(table.target.collection.database for table in together)
    begun = {table.target.collection.database for table in tables.values() if _has_begun(table, left)}
    for ticket in dict.fromkeys(run.ticket for run in runs):
        progress = tables[ticket].progress if ticket in tables else None
        if progress is None:
            continue
        database = tables[ticket].target.collection.database
        advance = Advance(ticket, tuple(run for run in runs if run.ticket == ticket))
        ends = advance.apply_to(progress).done
        left[database] -= ends
        files = [at for at, file in enumerate(staged) if file.ticket == ticket and file.rows]
        if not files:
            begun |= {database} if ends else set()
            continue
        first = Marker.FIRST_OF_COLLECTION if database in begun else Marker.FIRST
        last = Marker.LAST_OF_COLLECTION if left[database] else Marker.LAST
        found[files[0]] = Markers(first=None if progress.emitted else first)
        found[files[-1]] = replace(found[files[-1]], last=last if ends else None)
        begun.add(database)
    return found


def _has_begun(table: Table, left: Counter[str]) -> bool:
    """Whether rows of its database came before: its own, or those of a table that has left the queue."""
    gone = table.ordinal is not None and table.ordinal[1] > left[table.target.collection.database]
    return gone or bool(table.progress and table.progress.emitted)
