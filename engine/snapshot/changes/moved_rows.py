"""Rows that moved while their collection is read, and must be read again. Pure.

A row moves if an entry gives it another key, or lets it into the collection. The entry lacks a value that the
log has not, and no window may read the row any more:

    keys        1 ─────────── 500 ─────────── 1000
    progress    read ─────────►│ left to read ───►      an update moves 900 to 7 and lacks a large value
    row             7 ◄─────────────────── 900          no window reads it: 7 is read again by its key

So its key is kept with the progress (`Progress.reread`), until a window has read the row.

A table's key may be altered while snapshots of it wait in the queue, so entries may be cut by different keys.
A source says for which of these a row may have moved, and gives the merge keys that belong to it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from engine.snapshot.merge_key import key_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from engine.model import CollectionId, Key
    from engine.snapshot.extent import Progress
    from engine.snapshot.queue import Snapshot
    from engine.snapshot.queue_entry import Table

Pairs: TypeAlias = "frozenset[tuple[Key | None, Key]]"
"""Keys before and after; None before for a row that nobody has read."""
Cut: TypeAlias = tuple[str, ...]
"""The key by which a collection is cut into ranges (`Extent.key`)."""


def with_moved(
    snapshot: Snapshot, moved: Mapping[tuple[CollectionId, Cut], Collection[tuple[bytes | None, bytes]]]
) -> Snapshot:
    """Add rows to the queue that may have moved and lack a value: merge keys before and after."""
    for (collection, cut), pairs in moved.items():
        keys = frozenset((None if old is None else key_of(old), key_of(new)) for old, new in pairs)
        snapshot = read_again(snapshot, collection, cut, keys)
    return snapshot


def read_again(snapshot: Snapshot, collection: CollectionId, cut: Cut, pairs: Pairs) -> Snapshot:
    """Mark moved rows of a collection to be read again where it is read in ranges of the key `cut`.

    They may have moved out of its ranges, or away from a key that is to be read again. A pair without a key
    before is a row that did not belong to the collection before.
    """
    if not pairs:
        return snapshot
    keys = frozenset(after for _before, after in pairs)
    tables = (
        _entry_with(table, pairs) if table.target.collection == collection and table.cut == cut else table
        for table in snapshot.tables
    )
    failed = (
        failure.with_keys(keys) if failure.target.collection == collection and failure.key == cut else failure
        for failure in snapshot.failed
    )
    return replace(snapshot, tables=tuple(tables), failed=tuple(failed))


def _entry_with(table: Table, pairs: Pairs) -> Table:
    """The entry with those of these rows that must be read again."""
    if table.target.compared:
        return table  # nobody waits for its values
    if table.resumes is not None:
        keys = frozenset(after for _before, after in pairs)
        return replace(table, resumes=table.resumes.with_keys(keys))
    return replace(table, progress=_progress_with(table.progress, pairs)) if table.progress else table


def _progress_with(progress: Progress, pairs: Pairs) -> Progress:
    """The progress with the moved rows that must be read again.

    While ranges are left or rows are missing, any moved row may have escaped. Once all ranges are read, only
    two kinds of moves matter: away from a key that is to be read again, and into the collection from outside,
    since nobody has read such a row. All other moves are counted by the windows themselves. If only some
    rows were asked for, any row may come in from those that nobody has read.
    """
    if progress.left or progress.points or progress.missing or progress.extent.scoped:
        moved = {after for _before, after in pairs}
    else:
        moved = _destinations(progress.reread, pairs) | {after for before, after in pairs if before is None}
    added = tuple(sorted(moved.difference(progress.reread), key=str))
    return replace(progress, reread=progress.reread + added)


def _destinations(keys: Sequence[Key], pairs: Pairs) -> set[Key]:
    """The keys to which rows under these keys may have moved, over several moves."""
    found: set[Key] = set()
    there = set(keys)
    while more := {after for before, after in pairs if before in there} - found:
        found |= more
        there |= more
    return found
