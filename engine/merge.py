"""The merge rule: which READ events may be emitted, and when.

For a row with merge key *k* that a window read:

- it may be emitted only once the stream has passed every change that the row may already contain
  (`Watermark.reached`), so that history never runs backwards;
- it is dropped if any entry for *k* that it does not contain has been streamed, whenever that was,
  since that entry carries something newer. A key change counts for the old key and the new one, a
  truncate for every key of its collection.

The rule is set-based. An adapter says which keys were superseded; here they are gathered over the
turns that a window is open, and taken out of the window's rows. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.model import CollectionId

KEY_TYPE = pa.large_binary()
"""Merge keys, as `engine.merge_key` makes them."""


@dataclass(frozen=True, slots=True)
class Superseded:
    """Merge keys that the stream has carried something newer for, and collections truncated.

    `keys` holds arrays of merge keys (`engine.merge_key`), as they came; a key may come twice.
    """

    keys: Mapping[CollectionId, tuple[pa.LargeBinaryArray, ...]] = field(default_factory=dict)
    truncated: frozenset[CollectionId] = frozenset()

    def __or__(self, other: Superseded) -> Superseded:
        keys = dict(self.keys)
        for collection, arrays in other.keys.items():
            keys[collection] = keys.get(collection, ()) + arrays
        return Superseded(keys, self.truncated | other.truncated)

    def __bool__(self) -> bool:
        return bool(self.keys or self.truncated)

    def of(self, collection: CollectionId) -> Newer:
        """What supersedes rows of one collection, ready to be asked often and elsewhere."""
        arrays = self.keys.get(collection, ())
        keys = pa.chunked_array(arrays, KEY_TYPE).combine_chunks() if arrays else pa.array([], KEY_TYPE)
        return Newer(keys.unique(), truncated=collection in self.truncated)


@dataclass(frozen=True, slots=True)
class Newer:
    """The superseded keys of one collection: a value that travels to executors."""

    keys: pa.LargeBinaryArray
    truncated: bool = False

    def survivors(self, keys: pa.LargeBinaryArray) -> pa.BooleanArray | None:
        """A mask of the rows to emit, given their merge keys; None when that is all of them."""
        if self.truncated:
            return pa.array([False] * len(keys), pa.bool_())
        if not len(self.keys) or not len(keys):
            return None
        dropped = pc.is_in(keys, value_set=self.keys)
        return pc.invert(dropped) if pc.any(dropped).as_py() else None
