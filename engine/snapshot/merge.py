"""The merge rule: which READ events may be emitted, and when.

For a row with merge key *k* that a window read:

- it may be emitted only once the stream has passed every change that the row may already contain
  (`Watermark.reached`), so that history never runs backwards;
- it is dropped if any entry for *k* that it does not contain has been streamed, whenever that was,
  since that entry carries something newer. A key change counts for the old key and the new one, a
  truncate for every key of its collection.

The rule is set-based. An adapter says which keys were superseded; here they are gathered over the
turns that a window is open, and taken out of the window's rows. Where rows have no key, they are counted:
see `engine.snapshot.copies`.

An entry whose row lacks a value (a large one that it left unchanged) supersedes all the same, but then
nobody has sent that value: the row under its newest key must be read again. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from engine.snapshot import copies
from engine.snapshot.merge_key import KEY_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.model import CollectionId

_COMPACTED = 32
"""So many parts of balances are made one."""


@dataclass(frozen=True, slots=True)
class Superseded:
    """Merge keys that the stream has carried something newer for, and collections truncated.

    `keys` holds arrays of merge keys (`engine.snapshot.merge_key`), as they came; a key may come twice.
    `lacking` holds, for entries whose row lacks a value, the key before and the key after; None before where
    the row was none of the collection's. `copies` are balances (`engine.snapshot.copies`) of rows without a
    key, in the order of the log.
    """

    keys: Mapping[CollectionId, tuple[pa.LargeBinaryArray, ...]] = field(default_factory=dict)
    truncated: frozenset[CollectionId] = frozenset()
    lacking: Mapping[CollectionId, tuple[tuple[bytes | None, bytes], ...]] = field(default_factory=dict)
    copies: Mapping[CollectionId, tuple[pa.Table, ...]] = field(default_factory=dict)

    def __or__(self, other: Superseded) -> Superseded:
        """With what later entries superseded."""
        keys, lacking, counted = dict(self.keys), dict(self.lacking), dict(self.copies)
        for collection, arrays in other.keys.items():
            keys[collection] = keys.get(collection, ()) + arrays
        for collection, pairs in other.lacking.items():
            lacking[collection] = lacking.get(collection, ()) + pairs
        for collection, more in other.copies.items():
            parts = counted.get(collection, ()) + more
            counted[collection] = parts if len(parts) < _COMPACTED else (copies.together(parts),)
        return Superseded(keys, self.truncated | other.truncated, lacking, counted)

    def unsent(
        self, collection: CollectionId, dropped: Iterable[bytes], reread: Iterable[bytes] = ()
    ) -> frozenset[bytes]:
        """The keys to read again, given those dropped from a window: where lacking rows are now.

        `reread` are keys that the window read again: a row that comes to one or leaves one by an entry
        that the window does not hold was not there for it to see.
        """
        asked = set(reread)
        there = asked.union(dropped)
        lacking = self.lacking.get(collection, ())
        found = {after for before, after in lacking if after in asked and after != before}
        while more := {after for before, after in lacking if before in there} - found:
            found |= more
            there |= more
        return frozenset(found)

    def of(self, collection: CollectionId) -> Newer:
        """What supersedes rows of one collection, ready to be asked often and elsewhere."""
        arrays = self.keys.get(collection, ())
        keys = pa.chunked_array(arrays, KEY_TYPE).combine_chunks() if arrays else pa.array([], KEY_TYPE)
        lacking = {before for before, _after in self.lacking.get(collection, ()) if before is not None}
        return Newer(
            keys.unique(),
            collection in self.truncated,
            pa.array(sorted(lacking), KEY_TYPE),
            copies.taken(self.copies.get(collection, ())),
        )


@dataclass(frozen=True, slots=True)
class Newer:
    """The superseded keys of one collection, and those of lacking rows: a value for executors.

    `taken` says of how many rows without a key the first copies are superseded.
    """

    keys: pa.LargeBinaryArray
    truncated: bool = False
    lacking: pa.LargeBinaryArray = field(default_factory=lambda: pa.array([], KEY_TYPE))
    taken: pa.Table = field(default_factory=lambda: copies.NOTHING)

    def survivors(self, keys: pa.ChunkedArray) -> pa.ChunkedArray | None:
        """A mask of the rows to emit, given their merge keys; None when that is all of them."""
        if self.truncated:
            return pa.chunked_array([pa.repeat(pa.scalar(False), len(keys))])  # noqa: FBT003  a value
        if self.taken.num_rows:
            mask = copies.left(keys, self.taken)
            return None if mask is None else pa.chunked_array([pa.array(mask)])
        if not len(self.keys) or not len(keys):
            return None
        dropped = pc.is_in(keys, value_set=self.keys)
        return pc.invert(dropped) if pc.any(dropped).as_py() else None

    def names(self, keys: Sequence[bytes]) -> bool:
        """Whether any of some keys is superseded."""
        mask = self.survivors(pa.array(keys, KEY_TYPE))
        return mask is not None and not pc.all(mask).as_py()

    def dropped_lacking(self, keys: pa.ChunkedArray, survivors: pa.ChunkedArray | None) -> list[bytes]:
        """Those of a window's keys that were dropped for a row that lacks a value."""
        if self.truncated or survivors is None or not len(self.lacking):
            return []
        lost = pc.and_(pc.invert(survivors), pc.is_in(keys, value_set=self.lacking))
        found: list[bytes] = keys.filter(lost).to_pylist()
        return found
