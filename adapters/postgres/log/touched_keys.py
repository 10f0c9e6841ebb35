"""The merge keys that log entries touch, for the merge rule. Taken from raw entries, before any filter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adapters.postgres.log.cuts import moved_rows
from engine.snapshot.merge_key import merge_keys

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from adapters.postgres.log.cuts import Cut
    from adapters.postgres.log.entries import Entries
    from adapters.postgres.log.pgoutput import Tuples
    from adapters.postgres.log.timeline import Timeline
    from engine.events.codec import TableCodec
    from engine.events.record.field import Mask
    from engine.events.values.text import Ints, Text

TOUCHED = pa.schema(
    [
        pa.field("oid", pa.int64(), nullable=False),
        pa.field("xid", pa.int64(), nullable=False),
        pa.field("key", pa.large_binary(), nullable=False),
    ]
)
"""Keys touched: the relation, the 32-bit transaction id, the merge key."""

LACKING = TOUCHED.append(pa.field("old", pa.large_binary())).append(
    pa.field("moved", pa.bool_(), nullable=False)
)
"""Keys of rows whose new image lacks a value, with the keys those rows had before (mostly the same).

A row without an old key came into the publication's row filter. `moved` says whether the row may have changed
its place in a table being read.
"""


COUNTED = TOUCHED.append(pa.field("at", pa.int64(), nullable=False)).append(
    pa.field("sign", pa.int64(), nullable=False)
)
"""Whole images of rows without a key: each one's place in its part, and whether it went (-1) or came (1)."""

NO_KEYS, NO_LACKING, NO_COUNTED = (schema.empty_table() for schema in (TOUCHED, LACKING, COUNTED))


class Visible(Protocol):
    """Tells which of these 32-bit transaction ids (as int64) are in a snapshot, or settled."""

    def __call__(self, xids: Ints, /) -> Mask:
        """True for each id that is."""
        ...


@dataclass(frozen=True, slots=True)
class Watch:
    """Which entries matter to the merge rule.

    An entry matters in two cases: its relation is one of `oids` (those of the open windows) and the snapshot
    of the first window does not contain its transaction (`contained`); or its transaction is not `settled`.
    If `contained` is None, the snapshot contains nothing; if `settled` is None, all transactions are settled.
    `cuts` are the keys that cut the relations being read.
    """

    oids: frozenset[int] = frozenset()
    contained: Visible | None = None
    settled: Visible | None = None
    cuts: Mapping[int, Collection[Cut]] = field(default_factory=dict)

    @property
    def idle(self) -> bool:
        """Whether no entry can matter."""
        return not self.oids and self.settled is None and not self.cuts


def relevant_rows(entries: Entries, line: Timeline, watch: Watch) -> Mask:
    """The entries that matter."""
    xids = line.xids[line.ordinal[entries.messages]]
    chosen = np.zeros(len(xids), bool)
    if entries.oid in watch.oids:
        chosen |= True if watch.contained is None else ~watch.contained(xids)
    if watch.settled is not None:
        chosen |= ~watch.settled(xids)
    return chosen


def keys_touched(entries: Entries, codec: TableCodec, line: Timeline, watch: Watch) -> Iterable[pa.Table]:
    """The keys of entries that matter: an update's new key, and the old key where it is known.

    Rows without a key are counted instead (see `copies`).

    An insert needs no key. If a window's snapshot does not contain the insert, its row is not in the window.
    If the window has a row that had this key before, that row was deleted or got another key, and the log has
    that entry too. The same holds for the new key of an update under REPLICA IDENTITY FULL, where the old row
    is always known. Counting these keys would do harm where different rows share a key: it would drop the
    other rows.
    """
    if watch.idle or not codec.merge_key or entries.op == "c" or codec.bag:
        return
    rows = relevant_rows(entries, line, watch)
    if not rows.any():
        return
    for tuples in (entries.old, None if entries.full else entries.new):
        if tuples is not None:
            yield _table(entries, codec, line, tuples.columns, rows)


def incomplete(entries: Entries, codec: TableCodec, line: Timeline, watch: Watch) -> Iterable[pa.Table]:
    """The keys of rows lacking values that the log left out and that no old tuple has.

    Includes entries that matter, and rows that may have moved in a table being read.
    """
    if entries.new is None or not codec.merge_key or watch.idle or codec.bag:
        return
    rows = np.zeros(len(entries.messages), bool)
    for mark in entries.new.unchanged:
        if mark is not None:
            rows |= mark
    if not rows.any():
        return
    places = moved_rows(watch.cuts.get(entries.oid, ()), entries, codec)
    rows &= relevant_rows(entries, line, watch) | places
    if rows.any():
        table = _table(entries, codec, line, entries.new.columns, rows)
        before = entries.old or entries.new
        old: pa.ChunkedArray | pa.Array = _table(entries, codec, line, before.columns, rows).column("key")
        if entries.op == "c":
            old = pa.nulls(len(table), old.type)
        table = table.append_column(LACKING.field("old"), old)
        yield table.append_column(LACKING.field("moved"), pa.array(places[rows]))


def copies(entries: Entries, codec: TableCodec, line: Timeline, watch: Watch) -> Iterable[pa.Table]:
    """The images of rows without a key that entries which matter removed or added, as COUNTED."""
    if watch.idle or not codec.bag:
        return
    rows = relevant_rows(entries, line, watch)
    if not rows.any():
        return
    old, new = entries.old, entries.new
    if old is not None:
        yield _counted(_table(entries, codec, line, old.columns, rows), 2 * entries.messages[rows], -1)
    if new is not None:
        columns = new.columns if old is None else _whole(new, old)
        yield _counted(_table(entries, codec, line, columns, rows), 2 * entries.messages[rows] + 1, 1)


def _whole(new: Tuples, old: Tuples) -> list[Text]:
    """The new rows, with every value that the log left out taken from the old ones."""
    return [
        column if mark is None else pc.if_else(pa.array(mark), was, column)
        for column, was, mark in zip(new.columns, old.columns, new.unchanged, strict=True)
    ]


def _counted(rows: pa.Table, places: Ints, sign: int) -> pa.Table:
    more = [places.astype(np.int64), np.full(len(rows), sign)]
    return pa.table([*rows.columns, *more], schema=COUNTED)


def concat_in_log_order(counted: Iterable[pa.Table]) -> pa.Table:
    """Join a part's rows, in log order."""
    found = concat_tables(counted, NO_COUNTED)
    return found.sort_by("at") if found.num_rows else found


def _table(entries: Entries, codec: TableCodec, line: Timeline, columns: list[Text], rows: Mask) -> pa.Table:
    keep = pa.array(rows)
    keys = merge_keys([columns[at].filter(keep) for at in codec.merge_key])
    xids = line.xids[line.ordinal[entries.messages[rows]]]
    return pa.table([np.full(len(xids), entries.oid), xids, keys], schema=TOUCHED)


def concat_tables(tables: Iterable[pa.Table], none: pa.Table = NO_KEYS) -> pa.Table:
    """Join the tables into one; `none` if there are none."""
    found = list(tables)
    return pa.concat_tables(found) if found else none
