"""What commands change in the queue: collections come in, leave it, are paused and resumed. Pure."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from engine.model import Target
from engine.snapshot.queue_entry import ORDINARY, Request, Table, new_entries, rank

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from engine.model import CollectionId, ExecuteSnapshot, PauseSnapshot, ResumeSnapshot, StopSnapshot
    from engine.snapshot.queue import Snapshot


def execute(snapshot: Snapshot, command: ExecuteSnapshot, reading: Collection[int] = ()) -> Snapshot:
    """Append the command's collections to the queue.

    A request for an untouched entry joins that entry, which is then measured again; not if a window already
    reads it (`reading` holds those tickets), nor with another limit. For a target that failed before, only
    what it lacks is read. A blocking command joins no entry, and goes before everything that does not block.
    """
    if command.blocking:
        return _blocked(snapshot, command)
    asked = frozenset(command.targets)
    waiting = {
        table.target: table.ticket
        for table in snapshot.tables
        if table.target in asked
        and table.limit == command.limit
        and table.untouched
        and table.ticket not in reading
    }
    tickets = {waiting[target] for target in asked if target in waiting}
    tables = snapshot.tables
    if tickets:
        joined = (table.joined(command) if table.ticket in tickets else table for table in tables)
        tables = tuple(sorted(joined, key=rank))
    known = {failed.target: failed for failed in snapshot.failed if failed.target not in waiting}
    new = [target for target in command.targets if target not in waiting]
    added = tuple(
        Table(
            ticket,
            command.signal,
            target,
            id=command.id,
            resumes=known.pop(target, None),
            paused=snapshot.paused,
            priority=command.priority,
            limit=command.limit,
        )
        for ticket, target in enumerate(new, snapshot.next_ticket)
    )
    at = bisect_right(tables, (ORDINARY, -command.priority), key=rank)
    return replace(
        snapshot,
        tables=(*tables[:at], *added, *tables[at:]),
        next_ticket=snapshot.next_ticket + len(added),
        failed=tuple(known.values()),
    )


def _blocked(snapshot: Snapshot, command: ExecuteSnapshot) -> Snapshot:
    """The queue with a blocking command's collections behind earlier ones, before incremental ones."""
    known = {failed.target: failed for failed in snapshot.failed}
    entries = new_entries(command.targets, command.signal, snapshot.next_ticket)
    added = [
        replace(entry, id=command.id, limit=command.limit, resumes=known.pop(entry.target, None))
        for entry in entries
    ]
    earlier = [table for table in snapshot.tables if table.target.as_initial]
    later = [table for table in snapshot.tables if not table.target.as_initial]
    return replace(
        snapshot,
        tables=(*earlier, *added, *later),
        next_ticket=snapshot.next_ticket + len(added),
        failed=tuple(known.values()),
    )


def ahead_of(snapshot: Snapshot, command: ExecuteSnapshot) -> int:
    """How many entries are before the first one that the command asked for."""
    request = Request(command.signal, command.id)
    return next((at for at, table in enumerate(snapshot.tables) if request in table.requests), 0)


def begin_initial(
    snapshot: Snapshot,
    collections: Sequence[CollectionId],
    signal: str,
    conditions: Mapping[CollectionId, str] = MappingProxyType({}),
) -> Snapshot:
    """Queue the initial snapshot's collections ahead of all others. Replaces an earlier initial snapshot.

    `conditions` filter some of them. `Table.ordinal` is counted per database.
    """
    targets = [Target(collection, conditions.get(collection), initial=True) for collection in collections]
    added = new_entries(targets, signal, snapshot.next_ticket)
    others = tuple(table for table in snapshot.tables if not table.initial)
    return replace(snapshot, tables=(*added, *others), next_ticket=snapshot.next_ticket + len(added))


def stop(snapshot: Snapshot, command: StopSnapshot) -> tuple[Snapshot, tuple[Table, ...]]:
    """Remove the command's collections, or all, from the queue; also returns what was removed.

    Initial entries stay, since no signal asked for them.
    """
    stopped = _named(snapshot, command.collections, blocking=command.blocking)
    return snapshot.without(stopped), stopped


def pause(snapshot: Snapshot, command: PauseSnapshot) -> tuple[Snapshot, tuple[Table, ...]]:
    """Pause the command's collections, or all and those to come; also returns what was not paused before.

    Initial and blocking entries go on, since the log may wait for them.
    """
    paused = tuple(table for table in _named(snapshot, command.collections) if not table.paused)
    whole = snapshot.paused or command.collections is None
    return replace(_with_paused(snapshot, paused, paused=True), paused=whole), paused


def resume(snapshot: Snapshot, command: ResumeSnapshot) -> tuple[Snapshot, tuple[Table, ...]]:
    """Undo `pause` for the command's collections, or for all; also returns what was paused."""
    resumed = tuple(table for table in _named(snapshot, command.collections) if table.paused)
    whole = snapshot.paused and command.collections is not None
    return replace(_with_paused(snapshot, resumed, paused=False), paused=whole), resumed


def _named(
    snapshot: Snapshot, collections: tuple[CollectionId, ...] | None, *, blocking: bool = False
) -> tuple[Table, ...]:
    """The entries that a signal means: those of these collections, or all. Never initial ones."""
    return tuple(
        table
        for table in snapshot.tables
        if not table.initial
        and table.blocking == blocking
        and (collections is None or table.target.collection in collections)
    )


def _with_paused(snapshot: Snapshot, tables: Iterable[Table], *, paused: bool) -> Snapshot:
    return snapshot.changed((table.ticket for table in tables), lambda table: replace(table, paused=paused))
