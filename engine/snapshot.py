"""The incremental snapshot as a value: a queue of collections and how far each has been read.

Commands and finished windows go in, a new value and answers come out; no setters, no I/O. Which
keys a window reads is `plan.py`'s affair, which rows survive `merge.py`'s.

A collection is *queued* until a window reads it, then its `progress` says how far; it leaves the
queue as finished or stopped. The same collection may be queued twice, by two signals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from engine.model import CollectionId, ExecuteSnapshot, Key, StopSnapshot, Target


@dataclass(frozen=True, slots=True)
class Extent:
    """What was measured of a collection when its snapshot began.

    `rows` and `bytes` are the database's estimates. A `whole` collection is small enough to be read
    by one run without bounds. Otherwise `greatest` is the greatest key then, None for a collection
    without rows, and `span` the least and greatest value of a single, densely used integer key. `key`
    says what key the bounds belong to, in the source's own words.
    """

    rows: int
    bytes: int
    whole: bool = False
    greatest: Key | None = None
    span: tuple[int, int] | None = None
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a collection has been read: everything up to key `last` (None: nothing yet).

    `rows` counts the rows read, `emitted` the READ events that survived, `since_ms` when it began.
    Once all is `covered`, the keys in `reread` remain: rows whose newest image in the log lacks a value
    that was never sent. `rounds` counts the windows that tried.
    """

    extent: Extent
    since_ms: int
    last: Key | None = None
    rows: int = 0
    emitted: int = 0
    chunks: int = 0
    covered: bool = False
    reread: tuple[Key, ...] = ()
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """A collection in the queue; `ticket` tells apart two entries for the same collection.

    `signal` is the label of the signal that asked for it, `id` what its sender called it.
    """

    ticket: int
    signal: str
    target: Target
    progress: Progress | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Advance:
    """What one window did for one collection of the queue.

    The ranges up to `last` were read, all of them if `covered`; or `reread` keys were read again. Rows
    under the keys in `lacking` must be read again.
    """

    ticket: int
    last: Key | None
    covered: bool
    rows: int
    emitted: int
    chunks: int
    reread: frozenset[Key] = frozenset()
    lacking: frozenset[Key] = frozenset()

    def applied(self, progress: Progress) -> Progress:
        """The progress after it."""
        left = [key for key in progress.reread if key not in self.reread or key in self.lacking]
        left += sorted(self.lacking.difference(progress.reread), key=str)
        return replace(
            progress,
            last=progress.last if self.reread else self.last,
            rows=progress.rows + self.rows,
            emitted=progress.emitted + self.emitted,
            chunks=progress.chunks + self.chunks,
            covered=progress.covered or self.covered,
            reread=tuple(left),
            rounds=progress.rounds + bool(self.reread),
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The queue, in the order in which it will be read."""

    tables: tuple[Table, ...] = ()
    next_ticket: int = 1

    def execute(self, command: ExecuteSnapshot) -> Snapshot:
        """Queue the command's collections behind those already there."""
        added = tuple(
            Table(ticket, command.signal, target, id=command.id)
            for ticket, target in enumerate(command.targets, self.next_ticket)
        )
        return Snapshot(self.tables + added, self.next_ticket + len(added))

    def stop(self, command: StopSnapshot) -> tuple[Snapshot, tuple[Table, ...]]:
        """Take the command's collections, or all, out of the queue; also gives what was taken out."""
        named = command.collections
        stopped = tuple(t for t in self.tables if named is None or t.target.collection in named)
        return self.without(stopped), stopped

    def without(self, tables: Iterable[Table]) -> Snapshot:
        """The queue less these entries."""
        gone = {table.ticket for table in tables}
        return replace(self, tables=tuple(t for t in self.tables if t.ticket not in gone))

    def began(self, ticket: int, extent: Extent, now_ms: int) -> Snapshot:
        """Record what was measured of a collection before its first window."""
        return self._with(ticket, lambda table: replace(table, progress=Progress(extent, now_ms)))

    def opened(self, tickets: Collection[int], now_ms: int) -> Snapshot:
        """Start the clock of those entries that a window reads for the first time.

        They may have been measured long before, while others were read.
        """
        return replace(
            self, tables=tuple(_opened(t, now_ms) if t.ticket in tickets else t for t in self.tables)
        )

    def advanced(self, advance: Advance) -> tuple[Snapshot, Table | None]:
        """Record a window's work; also gives the entry if it is finished, which leaves the queue.

        An entry that was stopped meanwhile is passed over.
        """
        table = self.find(advance.ticket)
        if table is None or table.progress is None:
            return self, None
        progress = advance.applied(table.progress)
        done = replace(table, progress=progress)
        if progress.covered and not progress.reread:
            return self.without([table]), done
        return self._with(advance.ticket, lambda _table: done), None

    def moved(self, collection: CollectionId, keys: frozenset[Key]) -> Snapshot:
        """Read these keys of a collection again, if it is being read: a row may have come past its ranges."""
        return replace(
            self,
            tables=tuple(
                replace(table, progress=_reading_again(table.progress, keys))
                if table.target.collection == collection and table.progress
                else table
                for table in self.tables
            ),
        )

    def postponed(self, tables: Iterable[Table]) -> Snapshot:
        """These entries behind all others."""
        later = {table.ticket for table in tables}
        order = sorted(self.tables, key=lambda table: table.ticket in later)
        return replace(self, tables=tuple(order))

    def find(self, ticket: int) -> Table | None:
        """The entry with this ticket, None when it has left the queue."""
        return next((table for table in self.tables if table.ticket == ticket), None)

    def _with(self, ticket: int, change: Callable[[Table], Table]) -> Snapshot:
        return replace(self, tables=tuple(change(t) if t.ticket == ticket else t for t in self.tables))


def _opened(table: Table, now_ms: int) -> Table:
    if table.progress is None or table.progress.last is not None:
        return table
    return replace(table, progress=replace(table.progress, since_ms=now_ms))


def _reading_again(progress: Progress, keys: frozenset[Key]) -> Progress:
    added = () if progress.covered else tuple(sorted(keys.difference(progress.reread), key=str))
    return replace(progress, reread=progress.reread + added)
