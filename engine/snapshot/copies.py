"""Rows without a key, which may be duplicates: counts the copies that the stream has removed. Pure.

If a table has no key, a row's merge key is the whole row and the table is a multiset. An entry that the
window does not contain removes one copy of its old image and adds its new image through the stream. The
window must drop exactly as many copies as such entries took from its rows:

    window reads      a a b
    the log then has  a → b        takes an a; adds a b
                      b → c        takes the b that the stream has added, not the window's
                      b → d        takes the window's b
    emitted           a            the stream has sent c and d

An entry takes one of the stream's own copies as long as the stream has added more than it took. So for each
row the lowest balance over the entries, in log order, is the number of copies taken from the window.
Duplicates are indistinguishable, and that is fine: whichever copy an entry meant, the same rows remain.

Duplicates have the same value in whatever key cuts the table, so one run has all of them. Each window counts
for itself: an entry that another window contains still took a copy from this window's rows.

A table that is cut by where its rows are stored has duplicates in any of its runs. It may be cut so only
where no entry takes a copy; elsewhere one run must read all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.snapshot.merge_key import KEY_TYPE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.events.record.field import Mask
    from engine.events.values.text import Ints

BALANCES: Final = pa.schema(
    [
        pa.field("key", KEY_TYPE, nullable=False),
        pa.field("net", pa.int64(), nullable=False),
        pa.field("low", pa.int64(), nullable=False),
    ]
)
"""What entries did to the copies of a row: the net change, and the lowest balance on the way.

`low` is 0 or less: that many copies from before the entries were taken.
"""
NOTHING: Final = BALANCES.empty_table()


def balances_of(keys: pa.Array, signs: Ints) -> pa.Table:
    """Entries as balances: each key was added (1) or removed (-1)."""
    return pa.table([keys, pa.array(signs), pa.array(np.minimum(signs, 0))], schema=BALANCES)


def sum_balances(parts: Sequence[pa.Table]) -> pa.Table:
    """One balance per row, from parts in log order, whose rows are in log order as well."""
    rows = pa.concat_tables([NOTHING, *parts])
    if not rows.num_rows:
        return NOTHING
    keys = rows.column("key").combine_chunks().dictionary_encode()
    codes = keys.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    net, low = (rows.column(name).to_numpy()[order] for name in ("net", "low"))
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    reached = np.cumsum(net)
    before = reached - net
    before -= np.repeat(before[starts], np.diff(starts, append=len(order)))
    lowest = np.minimum(np.minimum.reduceat(before + low, starts), 0)
    return pa.table(
        [keys.dictionary, pa.array(np.add.reduceat(net, starts)), pa.array(lowest)], schema=BALANCES
    )


def taken_copies(parts: Sequence[pa.Table]) -> pa.Table:
    """The rows of which earlier copies were taken; `-low` says how many."""
    if not parts:
        return NOTHING
    rows = sum_balances(parts)
    return rows.filter(pc.less(rows.column("low"), 0))


def remaining_rows(keys: pa.ChunkedArray, gone: pa.Table) -> Mask | None:
    """A mask of the window's rows that remain, after dropping first copies; None: all of them."""
    if not gone.num_rows or not len(keys):
        return None
    found = pc.index_in(keys, value_set=gone.column("key").combine_chunks())
    hits = np.flatnonzero(found.is_valid().to_numpy())
    if not len(hits):
        return None
    codes = found.to_numpy(zero_copy_only=False)[hits].astype(np.int64)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    copy = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    mask = np.ones(len(keys), bool)
    mask[hits[order[copy < -gone.column("low").to_numpy()[codes[order]]]]] = False
    return mask
