"""The queue's memory of failures: what collections lack that could not be read completely. Pure.

The next request for the same target reads just that (`commands.execute`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from engine.model import CollectionId
    from engine.snapshot.queue import Snapshot
    from engine.snapshot.queue_entry import Table

_REMEMBERED = 1_000
"""How many failed collections the state remembers."""


def remember_failures(snapshot: Snapshot, tables: Iterable[Table]) -> Snapshot:
    """The queue without these failed entries. What they lack is remembered."""
    tables = tuple(tables)
    lost = {failed.target: failed for failed in (table.failed for table in tables) if failed}
    kept = tuple(failed for failed in snapshot.failed if failed.target not in lost)
    return replace(snapshot.without(tables), failed=(*kept, *lost.values())[-_REMEMBERED:])


def forget_failures(snapshot: Snapshot, collections: Collection[CollectionId]) -> Snapshot:
    """The queue without its memory of failures of these collections. They must be read in full."""
    kept = tuple(failed for failed in snapshot.failed if failed.target.collection not in collections)
    return replace(snapshot, failed=kept)
