"""Rows without a key, of which several may be alike: how many copies the stream has taken away. Pure.

Where a table has no key, a row's merge key is the whole row, and the table is a bag. An entry that a window
does not contain changes one row: it takes away one copy of its old image, and the stream brings its new
one. So of the rows that the window read as many copies are left out as entries took, and no more:

    window reads      a a b
    the log goes on   a → b        takes an a; brings a b
                      b → c        takes the b that the stream has brought: not the window's
                      b → d        takes the window's b
    goes out          a            beside it the stream has brought c and d

An old image is the stream's own as long as the stream has brought more of it than it took: so for each row
the lowest balance counts, over the entries in the order of the log. Rows that are alike can't be told apart,
and need not be: whichever copy an entry meant, the same rows are left.

Rows that are alike stand under the same key of whatever cuts the table, so one run has all of them. Which
entries count is each window's own affair: what another window contains took a copy from this one's rows.
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
"""What some entries did to copies of a row: how many more there are behind them, and the lowest on the way.

`low` is 0 or less: so many copies from before were taken.
"""
NOTHING: Final = BALANCES.empty_table()


def changes(keys: pa.Array, signs: Ints) -> pa.Table:
    """Entries as balances: each key came (1) or went (-1)."""
    return pa.table([keys, pa.array(signs), pa.array(np.minimum(signs, 0))], schema=BALANCES)


def together(parts: Sequence[pa.Table]) -> pa.Table:
    """One balance for each row, of parts in the order of the log, whose rows are in that order, too."""
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


def taken(parts: Sequence[pa.Table]) -> pa.Table:
    """The rows of which copies from before were taken; `low` says how many."""
    rows = together(parts)
    return rows.filter(pc.less(rows.column("low"), 0))


def left(keys: pa.ChunkedArray, gone: pa.Table) -> Mask | None:
    """Which of a window's rows are left, the first copies being taken; None: all of them."""
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
