"""The snapshot queue as an immutable value: collections, and what is left to read of each. Pure.

This module has what is asked of the queue, and what windows change in it. `changes/` has what commands,
failures and restarts change. `plan.py` decides which keys a window reads, `merge.py` which rows survive.

A collection is *queued* until a window reads it. From then on `progress` says what is left. It leaves the
queue as completed, stopped or failed. A *paused* one stays, and no window reads it until it is resumed. A
repeated request joins the existing entry until a row of it is read; after that it gets an entry of its own.
Entries of a higher priority come first, equal ones in the order of their arrival. So one that is being read
yields to an entry of higher priority at its window's end. What a failed entry lacks is remembered, and the
next request for the same target reads just that.

The queue has stages, which windows don't mix: the initial snapshot, then each blocking snapshot in the order
of the signals, then everything else.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, TypeAlias

from engine.snapshot.queue_entry import Request, Table, rank

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.model import CollectionId
    from engine.snapshot.extent import Advance, Extent, FailedSnapshot

Waiting: TypeAlias = "tuple[tuple[Table, ...], tuple[tuple[int, tuple[Request, ...]], ...]]"
"""The entries that merely wait, in order; and by ticket, further requests for an entry."""


@dataclass(frozen=True)
class Snapshot:
    """The queue in reading order, and what failed before. With `paused` on, new entries are paused.

    A queue may be long, and most turns leave it as it is. What every turn asks is found once.
    """

    tables: tuple[Table, ...] = ()
    next_ticket: int = 1
    failed: tuple[FailedSnapshot, ...] = ()
    paused: bool = False

    # Questions.

    @property
    def initial(self) -> bool:
        """Whether anything is left of the initial snapshot, whose entries come before all others."""
        return bool(self.tables) and self.tables[0].initial

    @cached_property
    def leading(self) -> tuple[Table, ...]:
        """The entries of the queue's first stage."""
        first = self.tables[0].stage if self.tables else None
        return tuple(takewhile(lambda table: table.stage == first, self.tables))

    @property
    def active(self) -> Snapshot:
        """The queue without paused entries, and without those whose rows wait to be compared."""
        if len(self._awake) == len(self.tables):
            return self
        return replace(self, tables=self._awake)

    @cached_property
    def _awake(self) -> tuple[Table, ...]:
        return tuple(table for table in self.tables if not table.rests)

    @cached_property
    def measured(self) -> tuple[Table, ...]:
        """The entries that have been measured, so that windows read them."""
        return tuple(table for table in self.tables if table.progress is not None)

    @cached_property
    def judged(self) -> tuple[Table, ...]:
        """The entries that end with a verdict."""
        return tuple(table for table in self.tables if table.target.judged)

    @property
    def done(self) -> tuple[Table, ...]:
        """The entries with nothing left to read."""
        return tuple(table for table in self.measured if table.progress and table.progress.done)

    @cached_property
    def all_paused(self) -> bool:
        """Whether there are entries, and all of them are paused."""
        return bool(self.tables) and all(table.paused for table in self.tables)

    @cached_property
    def reading(self) -> dict[CollectionId, frozenset[tuple[str, ...]]]:
        """The keys that cut each collection that is being read, or that may resume where it failed."""
        keys: defaultdict[CollectionId, set[tuple[str, ...]]] = defaultdict(set)
        for table in self.tables:
            if table.cut is not None:
                keys[table.target.collection].add(table.cut)
        for failed in self.failed:
            keys[failed.target.collection].add(failed.key)
        return {collection: frozenset(known) for collection, known in keys.items()}

    @cached_property
    def waiting(self) -> Waiting:
        """The part of the queue that merely waits."""
        merged = tuple((table.ticket, table.merged) for table in self.tables if table.merged)
        return tuple(table for table in self.tables if table.waits), merged

    @cached_property
    def begun(self) -> tuple[tuple[int, Table], ...]:
        """The entries that do not merely wait, each with its index in the queue."""
        return tuple((at, table) for at, table in enumerate(self.tables) if not table.waits)

    def find(self, ticket: int) -> Table | None:
        """The entry with this ticket, None when it has left the queue."""
        return next((table for table in self.tables if table.ticket == ticket), None)

    # Changes. More of them are in `changes/`.

    def without(self, tables: Iterable[Table]) -> Snapshot:
        """The queue without these entries."""
        gone = {table.ticket for table in tables}
        if not gone:
            return self
        return replace(self, tables=tuple(table for table in self.tables if table.ticket not in gone))

    def with_extent(self, ticket: int, extent: Extent, now_ms: int) -> Snapshot:
        """Record a collection's extent before its first window."""
        return self.changed((ticket,), lambda table: table.with_extent(extent, now_ms))

    def advanced(self, *advances: Advance) -> Snapshot:
        """Record a window's work on some entries. Entries stopped meanwhile are ignored."""
        done = {advance.ticket: advance for advance in advances}
        return self.changed(done, lambda table: table.advanced(done[table.ticket]))

    def postponed(self, tables: Iterable[Table]) -> Snapshot:
        """The queue with these entries moved behind all others of their stage and rank."""
        later = {table.ticket for table in tables}
        stages = {stage: at for at, stage in enumerate(dict.fromkeys(table.stage for table in self.tables))}
        order = sorted(
            self.tables, key=lambda table: (stages[table.stage], *rank(table), table.ticket in later)
        )
        return replace(self, tables=tuple(order))

    def changed(self, tickets: Iterable[int], change: Callable[[Table], Table]) -> Snapshot:
        """The queue with a change of the entries with these tickets. Those that have left it are ignored."""
        changing = frozenset(tickets)
        if not changing:
            return self
        tables = (change(table) if table.ticket in changing else table for table in self.tables)
        return replace(self, tables=tuple(tables))
