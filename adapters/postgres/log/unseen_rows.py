"""Rows that were touched by transactions which a snapshot does not show. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from engine.snapshot import copies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adapters.postgres.log.pending_visibility import Pairs
    from adapters.postgres.server.visibility import Visibility


def pairs_of(lacking: pa.Table) -> Iterator[tuple[bytes | None, bytes]]:
    """The old and new keys of rows that lack a value."""
    return zip(lacking.column("old").to_pylist(), lacking.column("key").to_pylist(), strict=True)


def pending_rows(touched: pa.Table, visibility: Visibility) -> pa.Table:
    """The rows `(oid, xid, key)` whose transactions the snapshot does not show."""
    if not touched.num_rows:
        return touched
    shown = visibility.shows(touched.column("xid").to_numpy())
    return touched.filter(pa.array(~shown))


def lacking_pairs(
    lacking: pa.Table, oid: int, visibility: Visibility
) -> tuple[tuple[bytes | None, bytes], ...]:
    """The old and new keys of one relation's rows that lack a value and that the snapshot does not show."""
    if not lacking.num_rows:
        return ()
    rows = lacking.filter(pa.array(lacking.column("oid").to_numpy() == oid))
    rows = pending_rows(rows, visibility)
    return tuple(pairs_of(rows))


def moved_keys(lacking: pa.Table) -> dict[int, Pairs]:
    """The old and new keys, by relation, of rows that lack a value and may have moved."""
    found: dict[int, Pairs] = {}
    if not lacking.num_rows:
        return found
    moved = lacking.filter(lacking.column("moved"))
    for oid in moved.column("oid").unique().to_pylist():
        rows = moved.filter(pc.equal(moved.column("oid"), oid)).select(["old", "key"])
        found[oid] = frozenset(pairs_of(rows.group_by(["old", "key"]).aggregate([])))
    return found


def balances(counted: pa.Table, oid: int, visibility: Visibility) -> pa.Table:
    """The balances of one relation's rows without a key, over entries that the snapshot does not show."""
    if not counted.num_rows:
        return copies.NOTHING
    rows = counted.filter(pa.array(counted.column("oid").to_numpy() == oid))
    return copies.sum_balances([balances_of(pending_rows(rows, visibility))])


def balances_of(counted: pa.Table) -> pa.Table:
    """The balances of rows without a key."""
    return copies.balances_of(counted.column("key").combine_chunks(), counted.column("sign").to_numpy())


def superseding_rows(touched: pa.Table, oid: int, visibility: Visibility) -> pa.LargeBinaryArray:
    """The keys of one relation that were touched by transactions which the snapshot does not show."""
    mine = touched.column("oid").to_numpy() == oid
    if mine.any():
        mine &= ~visibility.shows(touched.column("xid").to_numpy())
    keys: pa.LargeBinaryArray = touched.column("key").filter(pa.array(mine)).combine_chunks()
    return keys
