"""Compares rows that windows have read with a table whose position nobody knows. Pure.

Somebody else writes the table, so a difference may only mean that it lags. It counts once it has settled.
Each look waits after its windows, then scans the table, and the windows of the next look pass that scan:

    look      ── W1: read v ── wait ── scan: r ── W2: read v ── wait ── scan: r ── the difference counts
    stream    ──────── nothing has come for the key ──────────────────────────►

If nothing has come for the key meanwhile, the source has held v from W1 to W2. So a table that lags less than
the wait shows v in the first scan, and the difference is one. It must still be there in the second scan.

- *Equal*: the table holds what was read.
- *Missing*, *different*, *extra*: it does not, nor did it in the last look, with the same row on either side,
  and the stream has carried nothing for the key since that look began. Extra rows have a key that the source
  does not have.
- *Again*: any other difference. Its key must be looked at again.
- *Unseen*: the table has a row that no window has read. A window must look for its key.
- *Changed*: the same, but the stream has carried the key since windows began to read. Only a look that has
  read all of the source takes such keys as unseen, and only some of them: while rows are inserted, each look
  would find new ones.

A window that finds no row proves nothing while it lacks something that had been sent before.

A table that is filled in the order of the log can tell that it is far enough
(`adapters/verify/tables/marker.py`). Then a difference counts at once, unless the stream has carried its key
after the turn of the row's window and before the scan:

    stream    ── W: read v ── marker ─────────────── second marker ──►
    table                     shown ── scan: r       nothing has come for the key from W to here
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.verify.compared_digests import DIGEST, refuse_shared_keys
from engine.verify.seen_row import SeenRow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]
    Mask: TypeAlias = NDArray[np.bool_]

HELD: Final = pa.schema(
    [("key", DIGEST), ("row", DIGEST), ("place", pa.int64()), ("merge_key", pa.large_binary())]
)
"""Rows of the table, with a number by which each can be found again.

The merge key is null if the source can't have the row, and empty if no single rows can be read.
"""
DIFFERENCES: Final = pa.schema([("key", DIGEST), ("seen", DIGEST), ("held", DIGEST)])
"""What differed in a look: what was read and what the table held; null: no row."""
TOUCHED: Final = pa.schema([("key", DIGEST), ("turn", pa.int64())])
"""Keys for which the stream has carried something, each with that turn or a later one."""
SEVERAL: Final = bytes(DIGEST.byte_width)
"""Stands for what equals nothing: several rows of one key, or a value that the source's type can't hold."""


class HeldRows(NamedTuple):
    """Rows of a table: the digests of their keys and rows, numbers by which each can be found again.

    `faithful` says whether the source's types can hold a row's values. `merge_keys` are as in HELD.
    """

    keys: pa.Array
    rows: pa.Array
    places: pa.Array
    faithful: pa.Array
    merge_keys: pa.Array


class HeldPlace(NamedTuple):
    """One row of a table: its number, and the digest of its key."""

    number: int
    key: bytes


@dataclass(frozen=True, slots=True)
class Since:
    """What is known from the last look: its `differences`, and the turn `look`, after which it began.

    `touched` are the keys that the stream has carried since the turn `whole`, after which windows have read
    all of the source. `emptied` is the last turn by which the collection was truncated, which touches every
    key; -1: none. `visible`: windows can see whatever had been sent before the verification began, so rows
    that only the table has may count. `hidden`: the windows of this look may lack something that had been
    sent before it. With `marked` the table has told that it is far enough. `most_new` is how many keys that
    were touched may be unseen.
    """

    differences: pa.Table
    touched: pa.Table
    look: int = 0
    whole: int = 0
    emptied: int = -1
    visible: bool = True
    hidden: bool = False
    marked: bool = False
    most_new: int = 0


@dataclass(frozen=True, slots=True)
class SettledResult:
    """The outcome. `missing`, `different` and `again` are numbers of rows seen, `extra` of rows held.

    `unseen` are numbers of rows held whose keys a window must look for. `unread` counts those that have no
    key to look for, so that all must be read again. `differences` are those of this look.
    """

    equal: int
    changed: int
    missing: Ints
    different: Ints
    extra: Ints
    again: Ints
    unseen: Ints
    unread: int
    differences: pa.Table


def judge(seen: pa.Table, held: pa.Table, since: Since) -> SettledResult:
    """Compare rows of SEEN_ROWS with rows of HELD. Raises SourceError if rows share an event key."""
    tables = (seen, held, since.differences, since.touched)
    (seen_ids, held_ids, before_ids, touched_ids), count = _ids(tables)
    latest, at = _last(seen_ids, count), _last(held_ids, count)
    refuse_shared_keys(seen, latest[seen_ids])
    before = _Before(since, _last(before_ids, count), touched_ids, count)
    held_rows = _with_several(held.column("row").combine_chunks(), held_ids, count)

    rows = latest[latest >= 0]
    its = seen_ids[rows]
    kind = seen.column("seen").to_numpy()[rows]
    said = _taken(seen.column("row"), np.where(kind == SeenRow.ROW, rows, -1))
    found = _taken(held_rows, at[its])
    there = at[its] >= 0
    equal = (kind == SeenRow.ROW) & _same(said, found)
    open_ = ~equal & ((kind != SeenRow.ABSENT) | there)
    if since.marked:
        counts = ~before.touched_after(its, seen.column("turn").to_numpy()[rows])
    else:
        counts = before.was(its, said, found)
    counts &= open_ & (kind != SeenRow.SUPERSEDED)
    if since.hidden:
        counts &= kind != SeenRow.ABSENT

    only = np.flatnonzero((at >= 0) & (latest < 0))
    unread = _judge_unread((held, held_rows), at[only], only, before, since)
    differs = open_ & (kind != SeenRow.SUPERSEDED)
    is_row = kind == SeenRow.ROW
    return SettledResult(
        equal=int(equal.sum()),
        changed=unread.changed,
        missing=rows[counts & is_row & ~there],
        different=rows[counts & is_row & there],
        extra=np.concatenate((at[its[counts & ~is_row]], unread.extra)),
        again=rows[open_ & ~counts],
        unseen=unread.unseen,
        unread=unread.keyless,
        differences=_differences(
            _taken(seen.column("key"), rows[differs]),
            (said.filter(pa.array(differs)), found.filter(pa.array(differs))),
            _taken(held.column("key"), unread.kept),
            _taken(held_rows, unread.kept),
        ),
    )


class _Unread(NamedTuple):
    """What becomes of rows that only the table has, by their numbers. `kept` is for the next look."""

    extra: Ints
    unseen: Ints
    keyless: int
    changed: int
    kept: Ints


def _judge_unread(
    held: tuple[pa.Table, pa.Array], rows: Ints, ids: Ints, before: _Before, since: Since
) -> _Unread:
    """Judge the rows of the table, with these keys, that no window has read.

    `held` are the table's rows and their digests.
    """
    table, digests = held
    new = before.touched_after(ids, since.whole)
    nothing = pa.nulls(len(ids), DIGEST)
    settled = ~new if since.marked else before.was(ids, nothing, _taken(digests, rows))
    extra = settled & since.visible
    merge_keys = table.column("merge_key").take(pa.array(rows))
    named: Mask = pc.fill_null(pc.greater(pc.binary_length(merge_keys), 0), False).to_numpy()  # noqa: FBT003
    # After a truncate every key counts as touched, so that says nothing about how many are new.
    some = since.emptied > since.whole or np.cumsum(new & named) <= since.most_new
    unseen = named & ~extra & np.where(new, some, since.visible)
    return _Unread(
        extra=rows[extra],
        unseen=rows[unseen],
        keyless=int((~new & ~extra & ~unseen).sum()),
        changed=int((new & ~extra & ~unseen).sum()),
        kept=rows[~new | unseen],
    )


def _differences(keys: pa.Array, rows: tuple[pa.Array, pa.Array], only: pa.Array, held: pa.Array) -> pa.Table:
    """What differs: keys with what was read and what is held, and keys `only` of what is held."""
    seen = pa.concat_arrays([rows[0], pa.nulls(len(only), DIGEST)])
    return pa.table(
        [pa.concat_arrays([keys, only]), seen, pa.concat_arrays([rows[1], held])], schema=DIFFERENCES
    )


class _Before:
    """What the last look has found, and what the stream has carried, by the numbers of keys."""

    def __init__(self, since: Since, at: Ints, touched: Ints, count: int) -> None:
        self._at, self._look = at, since.look
        self._seen, self._held = since.differences.column("seen"), since.differences.column("held")
        self._last = np.full(count, since.emptied)
        np.maximum.at(self._last, touched, since.touched.column("turn").to_numpy())

    def was(self, its: Ints, seen: pa.Array, held: pa.Array) -> Mask:
        """Whether these keys differed in the same way, and nothing has come for them since."""
        at = self._at[its]
        same = _equal(_taken(self._seen, at), seen) & _equal(_taken(self._held, at), held)
        found: Mask = (at >= 0) & same & ~self.touched_after(its, self._look)
        return found

    def touched_after(self, its: Ints, turns: Ints | int) -> Mask:
        """Whether something has come for these keys after these turns."""
        found: Mask = self._last[its] > turns
        return found


def _ids(tables: tuple[pa.Table, ...]) -> tuple[list[Ints], int]:
    """A number for each key, alike in all tables, and how many keys there are."""
    keys = pa.chunked_array([chunk for table in tables for chunk in table.column("key").chunks], DIGEST)
    coded = keys.combine_chunks().dictionary_encode()
    ids = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum([len(table) for table in tables])
    return np.split(ids, ends[:-1]), len(coded.dictionary)


def _last(ids: Ints, count: int) -> Ints:
    """Where each key comes last; -1: nowhere."""
    found = np.full(count, -1, np.int64)
    np.maximum.at(found, ids, np.arange(len(ids)))
    return found


def _with_several(rows: pa.Array, ids: Ints, count: int) -> pa.Array:
    """The digests of rows; those of keys that have several rows equal nothing."""
    several = np.bincount(ids, minlength=count)[ids] > 1 if len(ids) else np.zeros(0, np.bool_)
    if not several.any():
        return rows
    return pc.if_else(pa.array(several), pa.scalar(SEVERAL, DIGEST), rows)


def _taken(rows: pa.Array | pa.ChunkedArray, at: Ints) -> pa.Array:
    """The digests at these places; null for -1."""
    chosen = rows.take(pa.array(at, mask=at < 0))
    return chosen.combine_chunks() if isinstance(chosen, pa.ChunkedArray) else chosen


def _same(some: pa.Array, others: pa.Array) -> Mask:
    """Whether digests are equal and there."""
    equal: Mask = (_words(some) == _words(others)).all(axis=1)
    return equal & _there(some) & _there(others)


def _equal(some: pa.Array, others: pa.Array) -> Mask:
    """Whether digests are equal, or both are missing."""
    return _same(some, others) | ~(_there(some) | _there(others))


def _there(digests: pa.Array) -> Mask:
    found: Mask = digests.is_valid().to_numpy(zero_copy_only=False)
    return found


def _words(digests: pa.Array) -> NDArray[np.uint64]:
    """Digests as two integers each; anything for null."""
    if not len(digests):
        return np.zeros((0, 2), np.uint64)
    words = np.frombuffer(digests.buffers()[1], np.uint64).reshape(-1, 2)
    return words[digests.offset : digests.offset + len(digests)]
