"""The merge rule: which READ events may be emitted, and when.

The rule, for a row with merge key *k* that a window read:

1. Wait. The READ may go out only once the stream has passed every change that the row may already
   contain (`OpenWindow.reached`).
2. Drop. The READ is dropped if the stream has carried any entry for *k* that the row does not contain, no
   matter when; even before the window opened, if the change was in the log but not visible yet. A key change
   counts for the old key and the new key, a truncate for every key of its collection.

    stream  ── c1 ──── n1 ──── c2 ──── H ──── n2 ──── emit ──── n3 ──►    entries for k
    window     reads its rows      │    waits     │  survivors go out

    c   the row contains it. It precedes H, so rule 1 puts it before the READ.
    n   the row does not contain it. n1 and n2 precede the emit: rule 2 drops the READ. n3 follows the READ.

Why it holds: whatever the row contains is streamed before its READ, so no older change follows the READ. A
READ goes out only if nothing newer has been streamed, so it never follows a newer change. A dropped READ
loses nothing, because the entry that superseded it carried the newer row.

There is one exception to the last sentence. An update may leave an unchanged large value out of the log. Its
entry lacks the value and still supersedes the READ, so nobody has sent the value. The row is then read again
under its newest key (`SupersededKeys.unsent`).

The rule works on sets. The adapter says which keys an entry supersedes. This module collects them while a
window is open and removes them from the window's rows. Rows without a key are counted instead: see
`engine.snapshot.copies`. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.snapshot import copies
from engine.snapshot.merge_key import KEY_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.model import CollectionId
    from engine.snapshot.key_hashes import KeyHashes

_COMPACTED = 32
"""How many parts of balances, or arrays of keys, may pile up before they are merged into one."""


@dataclass(frozen=True, slots=True)
class SupersededKeys:
    """The merge keys for which the stream has carried something newer, and the truncated collections.

    `keys` holds arrays of merge keys (`engine.snapshot.merge_key`) in arrival order; a key may occur twice,
    but all of them are at most about twice as many as are different.
    `lacking` holds the key before and the key after for each entry whose row lacks a value. The key before
    is None if the row did not belong to the collection. `copies` holds the balances
    (`engine.snapshot.copies`) of rows without a key, in log order.
    """

    keys: Mapping[CollectionId, tuple[pa.LargeBinaryArray, ...]] = field(default_factory=dict)
    truncated: frozenset[CollectionId] = frozenset()
    lacking: Mapping[CollectionId, tuple[tuple[bytes | None, bytes], ...]] = field(default_factory=dict)
    copies: Mapping[CollectionId, tuple[pa.Table, ...]] = field(default_factory=dict)

    def __or__(self, other: SupersededKeys) -> SupersededKeys:
        """Add what later entries superseded."""
        keys, lacking, counted = dict(self.keys), dict(self.lacking), dict(self.copies)
        for collection, arrays in other.keys.items():
            keys[collection] = _bounded(keys.get(collection, ()) + arrays)
        for collection, pairs in other.lacking.items():
            lacking[collection] = lacking.get(collection, ()) + pairs
        for collection, more in other.copies.items():
            parts = counted.get(collection, ()) + more
            counted[collection] = parts if len(parts) < _COMPACTED else (copies.sum_balances(parts),)
        return SupersededKeys(keys, self.truncated | other.truncated, lacking, counted)

    def unsent(
        self, collection: CollectionId, dropped: Iterable[bytes], reread: Iterable[bytes] = ()
    ) -> frozenset[bytes]:
        """The keys to read again: where the rows that lack a value are now.

        `dropped` are the keys dropped from the window for such rows. `reread` are the keys that the window
        itself read again. A row that an entry moved to or from one of them, unseen by the window, was not
        there when the window read.
        """
        asked = set(reread)
        there = asked.union(dropped)
        lacking = self.lacking.get(collection, ())
        found = {after for before, after in lacking if after in asked and after != before}
        while more := {after for before, after in lacking if before in there} - found:
            found |= more
            there |= more
        return frozenset(found)

    def of(self, collection: CollectionId) -> NewerKeys:
        """What supersedes rows of one collection, as a value that is fast to query."""
        arrays = self.keys.get(collection, ())
        keys = pa.concat_arrays(arrays) if arrays else _NO_KEYS
        lacking = {before for before, _after in self.lacking.get(collection, ()) if before is not None}
        return NewerKeys(
            keys,
            collection in self.truncated,
            pa.array(sorted(lacking), KEY_TYPE) if lacking else _NO_KEYS,
            copies.taken_copies(self.copies.get(collection, ())),
        )


_NO_KEYS: Final = pa.array([], KEY_TYPE)


def _bounded(arrays: tuple[pa.LargeBinaryArray, ...]) -> tuple[pa.LargeBinaryArray, ...]:
    """The arrays, merged into one without repetitions once those behind the first have as many keys as it.

    So a key that changes again and again takes no more room, and each key is merged a few times at most.
    """
    first, *others = arrays
    if len(others) < _COMPACTED or sum(map(len, others)) < len(first):
        return arrays
    return (pa.concat_arrays(arrays).unique(),)


@dataclass(frozen=True, slots=True)
class NewerKeys:
    """The superseded keys of one collection, and the keys of rows that lack a value. Goes to the executors.

    `taken` says how many copies of each row without a key are superseded, counted from the first copy.
    """

    keys: pa.LargeBinaryArray
    truncated: bool = False
    lacking: pa.LargeBinaryArray = field(default_factory=lambda: _NO_KEYS)
    taken: pa.Table = field(default_factory=lambda: copies.NOTHING)

    def within(self, rows: KeyHashes) -> NewerKeys:
        """What of it concerns rows with these hashes of their keys: it says the same of each of them."""
        return replace(self, keys=rows.among(self.keys), lacking=rows.among(self.lacking))

    def survivors(self, keys: pa.ChunkedArray) -> pa.ChunkedArray | None:
        """A mask of the rows to emit, given their merge keys; None if all of them."""
        if self.truncated:
            return pa.chunked_array([pa.repeat(pa.scalar(False), len(keys))])  # noqa: FBT003  a value
        if self.taken.num_rows:
            mask = copies.remaining_rows(keys, self.taken)
            return None if mask is None else pa.chunked_array([pa.array(mask)])
        if not len(self.keys) or not len(keys):
            return None
        dropped = pc.is_in(keys, value_set=self.keys)
        return pc.invert(dropped) if pc.any(dropped).as_py() else None

    def names(self, keys: Sequence[bytes]) -> bool:
        """Whether any of these keys is superseded."""
        mask = self.survivors(pa.array(keys, KEY_TYPE))
        return mask is not None and not pc.all(mask).as_py()

    def dropped_lacking(self, keys: pa.ChunkedArray, survivors: pa.ChunkedArray | None) -> list[bytes]:
        """The keys that were dropped from a window because of an entry whose row lacks a value."""
        if self.truncated or survivors is None or not len(self.lacking):
            return []
        lost = pc.and_(pc.invert(survivors), pc.is_in(keys, value_set=self.lacking))
        found: list[bytes] = keys.filter(lost).to_pylist()
        return found
