"""Hashes of a run's merge keys: whether changes may concern rows that are not in this process. Pure.

Rows that go to the sink beside the turns hold up a turn that changes one of them. On a cluster the driver has
neither these rows nor their keys. A task that stages a run gives back 4 bytes for each key instead, so the
driver needs 4 MB for a million rows. Equal keys have equal hashes, so no change of such a row is missed. Of
the changes of other rows, about one in 2^32 / n waits without need, where a run has n rows. Likewise a task
that sends a run is given the superseded keys of its rows, and not a million of other ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from xxhash import xxh32_intdigest

if TYPE_CHECKING:
    from numpy.typing import NDArray

_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class KeyHashes:
    """The distinct hashes, ascending, as 32-bit integers one after another."""

    data: bytes

    def may_have(self, keys: pa.LargeBinaryArray | pa.ChunkedArray) -> bool:
        """Whether any of these merge keys may be among them. False is certain."""
        return bool(self._found(keys).any())

    def among(self, keys: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        """Those of these merge keys that may be among them; the others certainly are not."""
        return keys.filter(pa.array(self._found(keys)))

    def _found(self, keys: pa.LargeBinaryArray | pa.ChunkedArray) -> NDArray[np.bool_]:
        known, asked = np.frombuffer(self.data, np.uint32), hashes_of(keys)
        if not len(known):
            return np.zeros(len(asked), bool)
        at = np.searchsorted(known, asked)
        return np.asarray(known[np.minimum(at, len(known) - 1)] == asked)


@dataclass(slots=True)
class KeyHashing:
    """The hashes of a run that is being staged."""

    _found: list[NDArray[np.uint32]] = field(default_factory=list)

    def add(self, keys: pa.LargeBinaryArray) -> None:
        """Add the merge keys of more rows."""
        self._found.append(hashes_of(keys))

    @property
    def all(self) -> KeyHashes:
        """The hashes of everything added."""
        found = self._found or [np.empty(0, np.uint32)]
        return KeyHashes(np.unique(np.concatenate(found)).tobytes())


def hashes_of(keys: pa.LargeBinaryArray | pa.ChunkedArray) -> NDArray[np.uint32]:
    """The hashes of merge keys, in their order."""
    found = np.empty(len(keys), np.uint32)
    for start in range(0, len(keys), _AT_ONCE):
        some = keys.slice(start, _AT_ONCE).to_pylist()
        found[start : start + len(some)] = np.fromiter(map(xxh32_intdigest, some), np.uint32, len(some))
    return found
