"""The snapshot queue as an immutable value: collections, and what is left to read of each. Pure.

Commands and finished windows go in; a new value and answers come out. `plan.py` decides which keys a window
reads, `merge.py` which rows survive.

A collection is *queued* until a window reads it. From then on `progress` says what is left. It leaves the
queue as completed, stopped or failed. A *paused* one stays, and no window reads it until it is resumed. A
repeated request joins the existing entry until a row of it is read; after that it gets an entry of its own.
Entries of a higher priority come first, equal ones in the order of their arrival. So one that is being read
yields to an entry of higher priority at its window's end.
What a failed entry lacks is remembered, and the next request for the same target reads just that.

The queue has stages, which windows don't mix: the initial snapshot, then each blocking snapshot in the order
of the signals, then everything else.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from engine.model import Purpose, Target
from engine.snapshot.queue_entry import ORDINARY, Pairs, Request, Table, placed, rank

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from engine.model import CollectionId, ExecuteSnapshot, PauseSnapshot, ResumeSnapshot, StopSnapshot
    from engine.snapshot.extent import Advance, Extent, Failed

Waiting: TypeAlias = "tuple[tuple[Table, ...], tuple[tuple[int, tuple[Request, ...]], ...]]"
"""The entries that merely wait, in order; and by ticket, further requests for an entry."""
_REMEMBERED = 1_000
"""How many failed collections the state remembers."""


@dataclass(frozen=True)
class Snapshot:
    """The queue in reading order, and what failed before. With `paused` on, new entries are paused.

    A queue may be long, and most turns leave it as it is. What every turn asks is found once.
    """

    tables: tuple[Table, ...] = ()
    next_ticket: int = 1
    failed: tuple[Failed, ...] = ()
    paused: bool = False

    def execute(self, command: ExecuteSnapshot, reading: Collection[int] = ()) -> Snapshot:
        """Append the command's collections to the queue.

        A request for an untouched entry joins that entry, which is then measured again; not if a window
        already reads it (`reading` holds those tickets), nor with another limit. For a target that failed
        before, only what it lacks is read. A blocking command joins no entry, and goes before everything that
        does not block.
        """
        if command.blocking:
            return self._blocked(command)
        asked = frozenset(command.targets)
        waiting = {
            table.target: table.ticket
            for table in self.tables
            if table.target in asked
            and table.limit == command.limit
            and table.untouched
            and table.ticket not in reading
        }
        tickets = {waiting[target] for target in asked if target in waiting}
        tables = self.tables
        if tickets:
            joined = (table.joined(command) if table.ticket in tickets else table for table in tables)
            tables = tuple(sorted(joined, key=rank))
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
                priority=command.priority,
                limit=command.limit,
            )
            for ticket, target in enumerate(new, self.next_ticket)
        )
        at = bisect_right(tables, (ORDINARY, -command.priority), key=rank)
        return replace(
            self,
            tables=(*tables[:at], *added, *tables[at:]),
            next_ticket=self.next_ticket + len(added),
            failed=tuple(known.values()),
        )

    def _blocked(self, command: ExecuteSnapshot) -> Snapshot:
        """The queue with a blocking command's collections behind earlier ones, before incremental ones."""
        known = {failed.target: failed for failed in self.failed}
        entries = placed(command.targets, command.signal, self.next_ticket)
        added = [
            replace(entry, id=command.id, limit=command.limit, resumes=known.pop(entry.target, None))
            for entry in entries
        ]
        first = [table for table in self.tables if table.target.as_initial]
        rest = [table for table in self.tables if not table.target.as_initial]
        return replace(
            self,
            tables=(*first, *added, *rest),
            next_ticket=self.next_ticket + len(added),
            failed=tuple(known.values()),
        )

    def ahead_of(self, command: ExecuteSnapshot) -> int:
        """How many entries are before the first one that the command asked for."""
        request = Request(command.signal, command.id)
        return next((at for at, table in enumerate(self.tables) if request in table.requests), 0)

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
        added = placed(targets, signal, self.next_ticket)
        others = tuple(table for table in self.tables if not table.initial)
        return replace(self, tables=(*added, *others), next_ticket=self.next_ticket + len(added))

    def anew(self) -> Snapshot:
        """The queue with all progress dropped, since it was made beside a log that is lost."""
        return replace(self, tables=tuple(table.anew for table in self.tables), failed=())

    def anew_of(self, collection: CollectionId) -> Snapshot:
        """The queue with all progress on one collection dropped."""
        tables = (table.anew if table.target.collection == collection else table for table in self.tables)
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
        if not collections:
            return self, ()
        anew = tuple(
            table
            for table in self.tables
            if table.target.collection in collections and table.began_before(collections)
        )
        restarted = self._each({table.ticket for table in anew}, lambda table: table.anew)
        return restarted.forgot(collections), anew

    @property
    def queued(self) -> int:
        """How many requests of signals are in the queue."""
        return sum(1 + len(table.merged) for table in self.tables if not table.initial)

    @property
    def initial(self) -> bool:
        """Whether anything is left of the initial snapshot, whose entries come before all others."""
        return bool(self.tables) and self.tables[0].initial

    def stop(self, command: StopSnapshot) -> tuple[Snapshot, tuple[Table, ...]]:
        """Remove the command's collections, or all, from the queue; also returns what was removed.

        Initial entries stay, since no signal asked for them.
        """
        stopped = self._named(command.collections, blocking=command.blocking)
        return self.without(stopped), stopped

    def pause(self, command: PauseSnapshot) -> tuple[Snapshot, tuple[Table, ...]]:
        """Pause the command's collections, or all and those to come; also returns what was not paused before.

        Initial and blocking entries go on, since the log may wait for them.
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
        """The queue without paused entries, and without those whose rows wait to be compared."""
        if len(self._awake) == len(self.tables):
            return self
        return replace(self, tables=self._awake)

    @cached_property
    def _awake(self) -> tuple[Table, ...]:
        return tuple(table for table in self.tables if not table.rests)

    def _named(
        self, collections: tuple[CollectionId, ...] | None, *, blocking: bool = False
    ) -> tuple[Table, ...]:
        """The entries that a signal means: those of these collections, or all. Never initial ones."""
        return tuple(
            table
            for table in self.tables
            if not table.initial
            and table.blocking == blocking
            and (collections is None or table.target.collection in collections)
        )

    def _marked(self, tables: Iterable[Table], *, paused: bool) -> Snapshot:
        return self._each({table.ticket for table in tables}, lambda table: replace(table, paused=paused))

    def without(self, tables: Iterable[Table]) -> Snapshot:
        """The queue without these entries."""
        gone = {table.ticket for table in tables}
        return replace(self, tables=tuple(t for t in self.tables if t.ticket not in gone))

    def gave_up(self, tables: Iterable[Table]) -> Snapshot:
        """The queue without these failed entries. What they lack is remembered."""
        lost = {failed.target: failed for failed in (table.failed for table in tables) if failed}
        kept = tuple(failed for failed in self.failed if failed.target not in lost)
        return replace(self.without(tables), failed=(*kept, *lost.values())[-_REMEMBERED:])

    def began(self, ticket: int, extent: Extent, now_ms: int) -> Snapshot:
        """Record a collection's extent before its first window.

        A repair that was sending single rows begins anew instead.
        """
        return self.changed(
            ticket,
            lambda table: table.anew if table.target.purpose is Purpose.MEND else table.began(extent, now_ms),
        )

    def opened(self, tickets: Collection[int], now_ms: int) -> Snapshot:
        """Set `since_ms` of the entries that a window reads for the first time.

        They may have been measured long before that.
        """
        return self._each(tickets, lambda table: table.opened(now_ms))

    def advanced(self, *advances: Advance) -> Snapshot:
        """Record a window's work on some entries. Entries stopped meanwhile are ignored."""
        done = {advance.ticket: advance for advance in advances}
        return self._each(done, lambda table: table.advanced(done[table.ticket]))

    @cached_property
    def measured(self) -> tuple[Table, ...]:
        """The entries that have been measured, so that windows read them."""
        return tuple(table for table in self.tables if table.progress is not None)

    @cached_property
    def judged(self) -> tuple[Table, ...]:
        """The entries that end with a verdict."""
        return tuple(table for table in self.tables if table.target.judged)

    @cached_property
    def held(self) -> bool:
        """Whether there are entries, and all of them are paused."""
        return bool(self.tables) and all(table.paused for table in self.tables)

    @cached_property
    def waiting(self) -> Waiting:
        """The part of the queue that merely waits."""
        merged = tuple((table.ticket, table.merged) for table in self.tables if table.merged)
        return tuple(table for table in self.tables if table.waits), merged

    @cached_property
    def touched(self) -> tuple[tuple[int, Table], ...]:
        """The entries that do not merely wait, each with its index in the queue."""
        return tuple((at, table) for at, table in enumerate(self.tables) if not table.waits)

    @property
    def done(self) -> tuple[Table, ...]:
        """The entries with nothing left to read."""
        return tuple(table for table in self.measured if table.progress and table.progress.done)

    @cached_property
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
            table.moved(pairs) if table.target.collection == collection else table for table in self.tables
        )
        failed = (
            failure.with_keys(keys) if failure.target.collection == collection else failure
            for failure in self.failed
        )
        return replace(self, tables=tuple(tables), failed=tuple(failed))

    def postponed(self, tables: Iterable[Table]) -> Snapshot:
        """The queue with these entries moved behind all others of their stage and rank."""
        later = {table.ticket for table in tables}
        stages = {stage: at for at, stage in enumerate(dict.fromkeys(table.stage for table in self.tables))}
        order = sorted(
            self.tables, key=lambda table: (stages[table.stage], *rank(table), table.ticket in later)
        )
        return replace(self, tables=tuple(order))

    @property
    def leading(self) -> tuple[Table, ...]:
        """The entries of the queue's first stage."""
        return tuple(takewhile(lambda table: table.stage == self.tables[0].stage, self.tables))

    def find(self, ticket: int) -> Table | None:
        """The entry with this ticket, None when it has left the queue."""
        return next((table for table in self.tables if table.ticket == ticket), None)

    def changed(self, ticket: int, change: Callable[[Table], Table]) -> Snapshot:
        """The queue with a change of one entry. If it has left the queue, nothing changes."""
        return self._each((ticket,), change)

    def _each(self, tickets: Collection[int], change: Callable[[Table], Table]) -> Snapshot:
        tables = (change(table) if table.ticket in tickets else table for table in self.tables)
        return replace(self, tables=tuple(tables))
