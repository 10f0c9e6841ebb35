"""The snapshot queue as an immutable value: collections, and what is left to read of each. Pure.

Commands and finished windows go in; a new value and answers come out. `plan.py` decides which keys a window
reads, `merge.py` which rows survive.

A collection is *queued* until a window reads it. From then on `progress` says what is left. It leaves the
queue as completed, stopped or failed. A *paused* one stays, and no window reads it until it is resumed. A
repeated request joins the existing entry until a row of it is read; after that it gets an entry of its own.
What a failed entry lacks is remembered, and the next request for the same target reads just that.
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

    from engine.model import (
        CollectionId,
        ExecuteSnapshot,
        Key,
        PauseSnapshot,
        ResumeSnapshot,
        StopSnapshot,
    )

Pairs: TypeAlias = "frozenset[tuple[Key | None, Key]]"
_REMEMBERED = 1_000
"""How many failed collections the state remembers."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a collection: `signal` is the signal's label, `id` the name that its sender gave it."""

    signal: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """An entry of the queue. `ticket` distinguishes entries for the same collection.

    `signal` and `id` are the first request's (see `Request`); `merged` holds the requests that joined while
    the entry waited. `resumes` is what an earlier entry failed to read. `place` is set for entries of the
    initial snapshot: table n of m of its database, from 1. `paused` entries wait for a signal.
    """

    ticket: int
    signal: str
    target: Target
    progress: Progress | None = None
    id: str | None = None
    resumes: Failed | None = None
    place: tuple[int, int] | None = None
    merged: tuple[Request, ...] = ()
    paused: bool = False

    @property
    def requests(self) -> tuple[Request, ...]:
        """All requests for this entry, each to be answered."""
        return (Request(self.signal, self.id), *self.merged)

    @property
    def untouched(self) -> bool:
        """Whether all of it is to be read, and no window has read any of it."""
        if self.initial or self.resumes is not None:
            return False
        progress = self.progress
        return progress is None or progress == Progress(
            progress.extent, progress.since_ms, progress.extent.ranges, reread=progress.reread
        )

    @property
    def initial(self) -> bool:
        """Whether it belongs to the initial snapshot, which is read before the log."""
        return self.target.initial

    def began_before(self, places: Mapping[CollectionId, tuple[int, ...]]) -> bool:
        """Whether it was measured or read before the place in the log given for its collection."""
        if self.progress is None:
            return self.resumes is not None
        return self.progress.extent.as_of < places[self.target.collection]

    def began(self, extent: Extent, now_ms: int) -> Table:
        """The entry after it was measured."""
        if self.resumes is not None:
            return replace(self, progress=self.resumes.progress(extent, now_ms), resumes=None)
        return replace(self, progress=Progress(extent, now_ms, extent.ranges))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The queue in reading order, and what failed before. With `paused` on, new entries are paused."""

    tables: tuple[Table, ...] = ()
    next_ticket: int = 1
    failed: tuple[Failed, ...] = ()
    paused: bool = False

    def execute(self, command: ExecuteSnapshot, reading: Collection[int] = ()) -> Snapshot:
        """Append the command's collections to the queue.

        A request for an untouched entry joins that entry, which is then measured again; not if a window
        already reads it (`reading` holds those tickets). For a target that failed before, only what it lacks
        is read.
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
        known = {failed.target: failed for failed in self.failed if failed.target not in waiting}
        new = [target for target in command.targets if target not in waiting]
        added = tuple(
            Table(
                ticket,
                command.signal,
                target,
                id=command.id,
                resumes=known.pop(target, None),
                paused=self.paused,
            )
            for ticket, target in enumerate(new, self.next_ticket)
        )
        return replace(
            self,
            tables=tables + added,
            next_ticket=self.next_ticket + len(added),
            failed=tuple(known.values()),
        )

    def begin(
        self,
        collections: Sequence[CollectionId],
        signal: str,
        conditions: Mapping[CollectionId, str] = MappingProxyType({}),
    ) -> Snapshot:
        """Queue the initial snapshot's collections ahead of all others. Replaces an earlier initial snapshot.

        `conditions` filter some of them. `Table.place` is counted per database.
        """
        targets = [Target(collection, conditions.get(collection), initial=True) for collection in collections]
        totals = Counter(collection.database for collection in collections)
        counted: Counter[str] = Counter()
        added = []
        for ticket, target in enumerate(targets, self.next_ticket):
            database = target.collection.database
            counted[database] += 1
            added.append(Table(ticket, signal, target, place=(counted[database], totals[database])))
        others = tuple(table for table in self.tables if not table.initial)
        return replace(self, tables=(*added, *others), next_ticket=self.next_ticket + len(added))

    def anew(self) -> Snapshot:
        """The queue with all progress dropped, since it was made beside a log that is lost."""
        tables = tuple(replace(table, progress=None, resumes=None) for table in self.tables)
        return replace(self, tables=tables, failed=())

    def anew_of(self, collection: CollectionId) -> Snapshot:
        """The queue with all progress on one collection dropped."""
        tables = (
            replace(table, progress=None, resumes=None) if table.target.collection == collection else table
            for table in self.tables
        )
        return replace(self, tables=tuple(tables))

    def forgot(self, collections: Collection[CollectionId]) -> Snapshot:
        """The queue without its memory of failures of these collections. They must be read in full."""
        return replace(
            self,
            failed=tuple(failed for failed in self.failed if failed.target.collection not in collections),
        )

    def replaced(
        self, collections: Mapping[CollectionId, tuple[int, ...]]
    ) -> tuple[Snapshot, tuple[Table, ...]]:
        """Restart collections whose rows were replaced outside the log; also returns the restarted entries.

        `collections` gives the place in the log for each. Entries measured after it stay as they are. The
        memory of what failed entries lack is dropped, because they lack more now.
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
        """How many requests of signals are in the queue."""
        return sum(1 + len(table.merged) for table in self.tables if not table.initial)

    @property
    def initial(self) -> bool:
        """Whether anything is left of the initial snapshot."""
        return any(table.initial for table in self.tables)

    def stop(self, command: StopSnapshot) -> tuple[Snapshot, tuple[Table, ...]]:
        """Remove the command's collections, or all, from the queue; also returns what was removed.

        Initial entries stay, since no signal asked for them.
        """
        stopped = self._named(command.collections)
        return self.without(stopped), stopped

    def pause(self, command: PauseSnapshot) -> tuple[Snapshot, tuple[Table, ...]]:
        """Pause the command's collections, or all and those to come; also returns what was not paused before.

        Initial entries go on, since the log may wait for them.
        """
        paused = tuple(table for table in self._named(command.collections) if not table.paused)
        whole = self.paused or command.collections is None
        return replace(self._marked(paused, paused=True), paused=whole), paused

    def resume(self, command: ResumeSnapshot) -> tuple[Snapshot, tuple[Table, ...]]:
        """Undo `pause` for the command's collections, or for all; also returns what was paused."""
        resumed = tuple(table for table in self._named(command.collections) if table.paused)
        whole = self.paused and command.collections is not None
        return replace(self._marked(resumed, paused=False), paused=whole), resumed

    @property
    def active(self) -> Snapshot:
        """The queue without paused entries."""
        if not any(table.paused for table in self.tables):
            return self
        return replace(self, tables=tuple(table for table in self.tables if not table.paused))

    def _named(self, collections: tuple[CollectionId, ...] | None) -> tuple[Table, ...]:
        """The entries that a signal means: those of these collections, or all. Never initial ones."""
        return tuple(
            table
            for table in self.tables
            if not table.initial and (collections is None or table.target.collection in collections)
        )

    def _marked(self, tables: Iterable[Table], *, paused: bool) -> Snapshot:
        tickets = {table.ticket for table in tables}
        return replace(
            self, tables=tuple(replace(t, paused=paused) if t.ticket in tickets else t for t in self.tables)
        )

    def without(self, tables: Iterable[Table]) -> Snapshot:
        """The queue without these entries."""
        gone = {table.ticket for table in tables}
        return replace(self, tables=tuple(t for t in self.tables if t.ticket not in gone))

    def gave_up(self, tables: Iterable[Table]) -> Snapshot:
        """The queue without these failed entries. What they lack is remembered."""
        lost = {failed.target: failed for failed in map(_failed, tables) if failed}
        kept = tuple(failed for failed in self.failed if failed.target not in lost)
        return replace(self.without(tables), failed=(*kept, *lost.values())[-_REMEMBERED:])

    def began(self, ticket: int, extent: Extent, now_ms: int) -> Snapshot:
        """Record a collection's extent before its first window."""
        return self._with(ticket, lambda table: table.began(extent, now_ms))

    def bounded(self, ticket: int, extent: Extent) -> Snapshot:
        """Record bounds for a collection that was to be read whole and must be cut instead."""

        def cut(table: Table) -> Table:
            if table.progress is None:
                return table
            return replace(table, progress=replace(table.progress, extent=extent, left=extent.ranges))

        return self._with(ticket, cut)

    def opened(self, tickets: Collection[int], now_ms: int) -> Snapshot:
        """Set `since_ms` of the entries that a window reads for the first time.

        They may have been measured long before that.
        """
        return replace(
            self, tables=tuple(_opened(t, now_ms) if t.ticket in tickets else t for t in self.tables)
        )

    def advanced(self, *advances: Advance) -> Snapshot:
        """Record a window's work on some entries. Entries stopped meanwhile are ignored."""
        done = {advance.ticket: advance for advance in advances}
        return replace(
            self, tables=tuple(_advanced(t, done[t.ticket]) if t.ticket in done else t for t in self.tables)
        )

    @property
    def done(self) -> tuple[Table, ...]:
        """The entries with nothing left to read."""
        return tuple(table for table in self.tables if table.progress and table.progress.done)

    @property
    def reading(self) -> dict[CollectionId, frozenset[tuple[str, ...]]]:
        """The keys that cut each collection that is being read, or that may resume where it failed."""
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
        """Mark moved rows of a collection to be read again, if the collection is being read.

        They may have moved out of its ranges, or away from a key that is to be read again. A pair without a
        key before is a row that did not belong to the collection before.
        """
        keys = frozenset(after for _before, after in pairs)
        tables = (
            _moved(table, pairs) if table.target.collection == collection else table for table in self.tables
        )
        failed = (
            failure.with_keys(keys) if failure.target.collection == collection else failure
            for failure in self.failed
        )
        return replace(self, tables=tuple(tables), failed=tuple(failed))

    def postponed(self, tables: Iterable[Table]) -> Snapshot:
        """The queue with these entries moved behind all others of their kind (initial or not)."""
        later = {table.ticket for table in tables}
        # Initial entries stay first: the log waits for them, and the others need the log.
        order = sorted(self.tables, key=lambda table: (not table.initial, table.ticket in later))
        return replace(self, tables=tuple(order))

    def find(self, ticket: int) -> Table | None:
        """The entry with this ticket, None when it has left the queue."""
        return next((table for table in self.tables if table.ticket == ticket), None)

    def _with(self, ticket: int, change: Callable[[Table], Table]) -> Snapshot:
        return replace(self, tables=tuple(change(t) if t.ticket == ticket else t for t in self.tables))


def _failed(table: Table) -> Failed | None:
    """What a collection lacks. A signal may ask for it, also if an initial entry failed."""
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
    """The progress with the moved rows that must be read again.

    While ranges are left or rows are missing, any moved row may have escaped. Once all ranges are read, only
    two kinds of moves matter: away from a key that is to be read again, and into the collection from outside,
    since nobody has read such a row. All other moves are counted by the windows themselves.
    """
    if progress.left or progress.missing:
        moved = {after for _before, after in pairs}
    else:
        moved = _whither(progress.reread, pairs) | {after for before, after in pairs if before is None}
    added = tuple(sorted(moved.difference(progress.reread), key=str))
    return replace(progress, reread=progress.reread + added)


def _whither(keys: Sequence[Key], pairs: Pairs) -> set[Key]:
    """The keys to which rows under these keys may have moved, over several moves."""
    found: set[Key] = set()
    there = set(keys)
    while more := {after for before, after in pairs if before in there} - found:
        found |= more
        there |= more
    return found
