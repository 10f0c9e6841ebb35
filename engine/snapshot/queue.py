"""Snapshots as a value: a queue of collections and what is left to read of each.

Commands and finished windows go in, a new value and answers come out; no setters, no I/O. Which
keys a window reads is `plan.py`'s affair, which rows survive `merge.py`'s.

A collection is *queued* until a window reads it, then its `progress` says what is left; it leaves the
queue as completed, stopped or failed. The same may be asked for again: before a row is read it is the same
entry, later one of its own. What a failed one lacks is remembered, and read when the same is asked for again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from engine.model import Target
from engine.snapshot.extent import Advance, Extent, Failed, Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from engine.model import CollectionId, ExecuteSnapshot, Key, StopSnapshot

Pairs: TypeAlias = "frozenset[tuple[Key | None, Key]]"
_REMEMBERED = 1_000
"""Failed collections that are kept in the state."""


@dataclass(frozen=True, slots=True)
class Request:
    """Who asked for a collection: `signal` is the label of the signal, `id` what its sender called it."""

    signal: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A collection in the queue; `ticket` tells apart two entries for the same collection.

    `signal` is the label of the signal that asked for it, `id` what its sender called it; `merged` asked for
    the same while it waited. `resumes` is what an earlier entry failed to read. `place` is for entries of the
    snapshot before the log: table n of m of its database, from 1.
    """

    ticket: int
    signal: str
    target: Target
    progress: Progress | None = None
    id: str | None = None
    resumes: Failed | None = None
    place: tuple[int, int] | None = None
    merged: tuple[Request, ...] = ()

    @property
    def requests(self) -> tuple[Request, ...]:
        """All who asked for it, and are to be answered."""
        return (Request(self.signal, self.id), *self.merged)

    @property
    def untouched(self) -> bool:
        """Whether no window has brought anything of it, and all of it is to be read."""
        if self.initial or self.resumes is not None:
            return False
        progress = self.progress
        return progress is None or progress == Progress(
            progress.extent, progress.since_ms, progress.extent.ranges, reread=progress.reread
        )

    @property
    def initial(self) -> bool:
        """Whether it belongs to the snapshot that is taken before the log is read."""
        return self.target.initial

    def began_before(self, places: Mapping[CollectionId, tuple[int, ...]]) -> bool:
        """Whether something was read or known of its rows before the place in the log given for it."""
        if self.progress is None:
            return self.resumes is not None
        return self.progress.extent.as_of < places[self.target.collection]

    def began(self, extent: Extent, now_ms: int) -> Table:
        """The entry with what was measured."""
        if self.resumes is not None:
            return replace(self, progress=self.resumes.progress(extent, now_ms), resumes=None)
        return replace(self, progress=Progress(extent, now_ms, extent.ranges))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The queue, in the order in which it will be read, and what failed before."""

    tables: tuple[Table, ...] = ()
    next_ticket: int = 1
    failed: tuple[Failed, ...] = ()

    def execute(self, command: ExecuteSnapshot, reading: Collection[int] = ()) -> Snapshot:
        """Queue the command's collections behind those already there.

        What waits already is asked for by one more, and measured anew; windows read those in `reading`. Of
        one that failed before, just what it lacks is read.
        """
        asked = frozenset(command.targets)
        waiting = {
            table.target: table.ticket
            for table in self.tables
            if table.target in asked and table.untouched and table.ticket not in reading
        }
        request = Request(command.signal, command.id)
        tickets = {waiting[target] for target in asked if target in waiting}
        tables = tuple(_merged(t, request) if t.ticket in tickets else t for t in self.tables)
        known = {one.target: one for one in self.failed if one.target not in waiting}
        new = [target for target in command.targets if target not in waiting]
        added = tuple(
            Table(ticket, command.signal, target, id=command.id, resumes=known.pop(target, None))
            for ticket, target in enumerate(new, self.next_ticket)
        )
        return Snapshot(tables + added, self.next_ticket + len(added), tuple(known.values()))

    def begin(
        self,
        collections: Sequence[CollectionId],
        signal: str,
        conditions: Mapping[CollectionId, str] = MappingProxyType({}),
    ) -> Snapshot:
        """Queue collections for the snapshot before the log, ahead of others; what was left of one goes.

        `conditions` are the filters of some of them. Places are counted in each database.
        """
        targets = [Target(one, conditions.get(one), initial=True) for one in collections]
        totals = Counter(one.database for one in collections)
        counted: Counter[str] = Counter()
        added = []
        for ticket, target in enumerate(targets, self.next_ticket):
            database = target.collection.database
            counted[database] += 1
            added.append(Table(ticket, signal, target, place=(counted[database], totals[database])))
        others = tuple(table for table in self.tables if not table.initial)
        return replace(self, tables=(*added, *others), next_ticket=self.next_ticket + len(added))

    def anew(self) -> Snapshot:
        """The queue with nothing read: what was, was read beside a log that is lost."""
        tables = tuple(replace(table, progress=None, resumes=None) for table in self.tables)
        return replace(self, tables=tables, failed=())

    def anew_of(self, collection: CollectionId) -> Snapshot:
        """The queue with nothing read of one collection."""
        tables = (
            replace(table, progress=None, resumes=None) if table.target.collection == collection else table
            for table in self.tables
        )
        return replace(self, tables=tuple(tables))

    def forgot(self, collections: Collection[CollectionId]) -> Snapshot:
        """The queue without memory of what it failed to read of some collections: all of it must be read."""
        return replace(
            self, failed=tuple(one for one in self.failed if one.target.collection not in collections)
        )

    def replaced(
        self, collections: Mapping[CollectionId, tuple[int, ...]]
    ) -> tuple[Snapshot, tuple[Table, ...]]:
        """The queue with nothing read of collections whose rows others replaced, outside the log.

        `collections` says where in the log that was; what was measured later is right. Also gives the entries
        that begin anew. What failed entries lack is no longer all that they lack, so that is forgotten.
        """
        anew = tuple(
            table
            for table in self.tables
            if table.target.collection in collections and table.began_before(collections)
        )
        tickets = {table.ticket for table in anew}
        tables = tuple(
            replace(table, progress=None, resumes=None) if table.ticket in tickets else table
            for table in self.tables
        )
        return replace(self, tables=tables).forgot(collections), anew

    @property
    def queued(self) -> int:
        """How many collections are asked for by signals, each as often as it is."""
        return sum(1 + len(table.merged) for table in self.tables if not table.initial)

    @property
    def initial(self) -> bool:
        """Whether something is left of the snapshot before the log."""
        return any(table.initial for table in self.tables)

    def stop(self, command: StopSnapshot) -> tuple[Snapshot, tuple[Table, ...]]:
        """Take the command's collections, or all, out of the queue; also gives what was taken out.

        Initial entries stay: no signal asked for them.
        """
        named = command.collections
        stopped = tuple(
            t for t in self.tables if not t.initial and (named is None or t.target.collection in named)
        )
        return self.without(stopped), stopped

    def without(self, tables: Iterable[Table]) -> Snapshot:
        """The queue less these entries."""
        gone = {table.ticket for table in tables}
        return replace(self, tables=tuple(t for t in self.tables if t.ticket not in gone))

    def gave_up(self, tables: Iterable[Table]) -> Snapshot:
        """The queue less these entries, which failed: what they lack is remembered."""
        lost = {one.target: one for one in map(_failed, tables) if one}
        kept = tuple(one for one in self.failed if one.target not in lost)
        return replace(self.without(tables), failed=(*kept, *lost.values())[-_REMEMBERED:])

    def began(self, ticket: int, extent: Extent, now_ms: int) -> Snapshot:
        """Record what was measured of a collection before its first window."""
        return self._with(ticket, lambda table: table.began(extent, now_ms))

    def bounded(self, ticket: int, extent: Extent) -> Snapshot:
        """Record bounds for a collection that was to be read whole, and is not."""

        def cut(table: Table) -> Table:
            if table.progress is None:
                return table
            return replace(table, progress=replace(table.progress, extent=extent, left=extent.ranges))

        return self._with(ticket, cut)

    def opened(self, tickets: Collection[int], now_ms: int) -> Snapshot:
        """Start the clock of those entries that a window reads for the first time.

        They may have been measured long before, while others were read.
        """
        return replace(
            self, tables=tuple(_opened(t, now_ms) if t.ticket in tickets else t for t in self.tables)
        )

    def advanced(self, *advances: Advance) -> Snapshot:
        """Record a window's work on some entries; that on one which was stopped meanwhile is passed over."""
        done = {advance.ticket: advance for advance in advances}
        return replace(
            self, tables=tuple(_advanced(t, done[t.ticket]) if t.ticket in done else t for t in self.tables)
        )

    @property
    def done(self) -> tuple[Table, ...]:
        """The entries of which nothing is left to read."""
        return tuple(table for table in self.tables if table.progress and table.progress.done)

    @property
    def reading(self) -> dict[CollectionId, frozenset[tuple[str, ...]]]:
        """What is being read, or will be from where it failed: the keys that cut each collection."""
        keys: defaultdict[CollectionId, set[tuple[str, ...]]] = defaultdict(set)
        for table in self.tables:
            if table.resumes is not None:
                keys[table.target.collection].add(table.resumes.key)
            elif table.progress is not None:
                keys[table.target.collection].add(table.progress.extent.key)
        for failed in self.failed:
            keys[failed.target.collection].add(failed.key)
        return {collection: frozenset(known) for collection, known in keys.items()}

    def moved(self, collection: CollectionId, pairs: Pairs) -> Snapshot:
        """Read rows of a collection again that may have moved, if it is being read.

        They may have come past its ranges, or left a key that waits to be read again. What was under no key
        before was none of the collection's rows.
        """
        keys = frozenset(after for _before, after in pairs)
        tables = (
            _moved(table, pairs) if table.target.collection == collection else table for table in self.tables
        )
        failed = (one.with_keys(keys) if one.target.collection == collection else one for one in self.failed)
        return replace(self, tables=tuple(tables), failed=tuple(failed))

    def postponed(self, tables: Iterable[Table]) -> Snapshot:
        """These entries behind all others."""
        later = {table.ticket for table in tables}
        # The log waits for initial entries, and others would wait for the log.
        order = sorted(self.tables, key=lambda table: (not table.initial, table.ticket in later))
        return replace(self, tables=tuple(order))

    def find(self, ticket: int) -> Table | None:
        """The entry with this ticket, None when it has left the queue."""
        return next((table for table in self.tables if table.ticket == ticket), None)

    def _with(self, ticket: int, change: Callable[[Table], Table]) -> Snapshot:
        return replace(self, tables=tuple(change(t) if t.ticket == ticket else t for t in self.tables))


def _failed(table: Table) -> Failed | None:
    """What a collection lacks; that of the snapshot before the log is a signal's to ask for, too."""
    if table.progress is None:
        return None
    return Failed(replace(table.target, initial=False), table.progress.extent.key, table.progress.lacks)


def _merged(table: Table, request: Request) -> Table:
    return replace(table, progress=None, merged=(*table.merged, request))


def _opened(table: Table, now_ms: int) -> Table:
    if table.progress is None or table.progress.chunks:
        return table
    return replace(table, progress=replace(table.progress, since_ms=now_ms))


def _advanced(table: Table, advance: Advance) -> Table:
    return replace(table, progress=advance.applied(table.progress)) if table.progress else table


def _moved(table: Table, pairs: Pairs) -> Table:
    if table.resumes is not None:
        return replace(table, resumes=table.resumes.with_keys(frozenset(after for _before, after in pairs)))
    return replace(table, progress=_reading_again(table.progress, pairs)) if table.progress else table


def _reading_again(progress: Progress, pairs: Pairs) -> Progress:
    """Once all ranges are read, a row comes past them by a window's own account, or from a key that waits.

    A row that was none of the collection's has been read by nobody, whenever it comes.
    """
    if progress.left or progress.missing:
        moved = {after for _before, after in pairs}
    else:
        moved = _whither(progress.reread, pairs) | {after for before, after in pairs if before is None}
    added = tuple(sorted(moved.difference(progress.reread), key=str))
    return replace(progress, reread=progress.reread + added)


def _whither(keys: Sequence[Key], pairs: Pairs) -> set[Key]:
    """Where rows under these keys may have gone, over several moves."""
    found: set[Key] = set()
    there = set(keys)
    while more := {after for before, after in pairs if before in there} - found:
        found |= more
        there |= more
    return found
