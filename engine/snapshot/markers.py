"""The marks on an initial snapshot's READ events: which row says that it is the first or the last. Pure.

The words are Debezium's, in the source block's `snapshot`; a row without a mark of its own says "true".
Nobody looks ahead: where the first table has no rows, no row is `first`, and so for the last one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from engine.snapshot.extent import Advance

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from engine.model import Run, Staged
    from engine.snapshot.queue import Snapshot, Table


class Marker(StrEnum):
    """What a row can be, from the strongest to the weakest where it is several at once."""

    LAST = "last"
    FIRST = "first"
    LAST_OF_COLLECTION = "last_in_data_collection"
    FIRST_OF_COLLECTION = "first_in_data_collection"


@dataclass(frozen=True, slots=True)
class Markers:
    """The marks of the first and of the last row of some rows; None: that row has none."""

    first: Marker | None = None
    last: Marker | None = None

    def among(self, known: Collection[Marker]) -> Markers:
        """Without those that a source's events don't know."""
        first, last = (one if one in known else None for one in (self.first, self.last))
        return Markers(first, last)

    @property
    def single(self) -> Marker | None:
        """The mark of a row that is both."""
        both = [one for one in Marker if one in {self.first, self.last}]
        return both[0] if both else None


NO_MARKERS = Markers()


def marks(snapshot: Snapshot, runs: Sequence[Run], staged: Sequence[Staged]) -> list[Markers]:
    """The marks of each file of rows that goes out now, of these runs of an initial snapshot.

    The order is that in which tables are read, which busy ones change: the first one is the one before
    which nothing has come, the last one that behind which no other is left. Each database is a snapshot of
    its own.
    """
    found = [NO_MARKERS] * len(staged)
    tables = {one.ticket: one for one in snapshot.tables if one.initial and one.place and one.progress}
    left = Counter(one.target.collection.database for one in snapshot.tables if one.initial)
    begun = {one.target.collection.database for one in tables.values() if _has_begun(one, left)}
    for ticket in dict.fromkeys(run.ticket for run in runs):
        progress = tables[ticket].progress if ticket in tables else None
        if progress is None:
            continue
        database = tables[ticket].target.collection.database
        advance = Advance(ticket, tuple(run for run in runs if run.ticket == ticket))
        ends = advance.applied(progress).done
        left[database] -= ends
        files = [at for at, one in enumerate(staged) if one.ticket == ticket and one.rows]
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
    """Whether rows of its database have come: its own, or those of a table that has left the queue."""
    gone = table.place is not None and table.place[1] > left[table.target.collection.database]
    return gone or bool(table.progress and table.progress.emitted)
