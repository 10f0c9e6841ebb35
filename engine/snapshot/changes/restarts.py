"""Entries of the queue that begin anew, because what was read of them is no longer right. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.snapshot.changes.failures import forget_failures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.model import CollectionId
    from engine.snapshot.queue import Snapshot
    from engine.snapshot.queue_entry import Table


def restart_all(snapshot: Snapshot) -> Snapshot:
    """The queue with all progress dropped, since it was made beside a log that is lost."""
    return replace(snapshot, tables=tuple(table.anew for table in snapshot.tables), failed=())


def restart_unread(snapshot: Snapshot) -> Snapshot:
    """The queue after a start: entries of which no window has sent anything are to be measured again.

    A server that was restored, or failed over to a replica that lags, may have lost changes that were visible
    when they were measured. Where rows were sent, the stream had come to what the measurement saw.
    """
    unread = (table.ticket for table in snapshot.tables if table.progress and table.progress.untouched)
    return snapshot.changed(unread, lambda table: table.anew)


def restart_collection(snapshot: Snapshot, collection: CollectionId) -> Snapshot:
    """The queue with all progress on one collection dropped."""
    tables = (table.anew if table.target.collection == collection else table for table in snapshot.tables)
    return replace(snapshot, tables=tuple(tables))


def restart_replaced(
    snapshot: Snapshot, collections: Mapping[CollectionId, tuple[int, ...]]
) -> tuple[Snapshot, tuple[Table, ...]]:
    """Restart collections whose rows were replaced outside the log; also returns the restarted entries.

    `collections` gives the position in the log for each. Entries measured after it stay as they are. The
    memory of what failed entries lack is dropped, because they lack more now.
    """
    if not collections:
        return snapshot, ()
    restarted = tuple(table for table in snapshot.tables if _began_before(table, collections))
    changed = snapshot.changed((table.ticket for table in restarted), lambda table: table.anew)
    return forget_failures(changed, collections), restarted


def _began_before(table: Table, positions: Mapping[CollectionId, tuple[int, ...]]) -> bool:
    """Whether an entry was measured or read before the position given for its collection."""
    position = positions.get(table.target.collection)
    if position is None:
        return False
    if table.progress is None:
        return table.resumes is not None
    return table.progress.extent.as_of < position
