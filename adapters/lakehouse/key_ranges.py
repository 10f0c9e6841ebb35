"""What is known of the keys that a table has, so that rows that are new to it need no MERGE. Pure.

Only the first column of a key counts. What a table has when it is met is one range, or none. Ranges that are
written since and overlap become one. Beyond a bound the first two do.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from adapters.lakehouse.port import Batch

_MOST: Final = 1000
"""Ranges that are told apart."""


class KeyRange(NamedTuple):
    """The least and the greatest value of a key's first column: integers or texts, as Spark orders them."""

    low: Any
    high: Any


def range_of(batch: Batch) -> KeyRange | None:
    """The range of a batch; None where values have no order that is sure."""
    values = batch.rows.column(batch.key[0])
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind)) or values.null_count:
        return None
    found = pc.min_max(values).as_py()
    return None if found["min"] is None else KeyRange(found["min"], found["max"])


class KeyRanges:
    """The ranges outside of which a table has no keys, in order and apart."""

    def __init__(self) -> None:
        self._ranges: list[KeyRange] = []

    def meets(self, keys: KeyRange) -> bool:
        """Whether the table may have keys between these."""
        at = self._first(keys)
        return at < len(self._ranges) and self._ranges[at].low <= keys.high

    def add(self, keys: KeyRange) -> None:
        """Note that the table may have keys between these."""
        begin = end = self._first(keys)
        low, high = keys
        while end < len(self._ranges) and self._ranges[end].low <= high:
            low, high = min(low, self._ranges[end].low), max(high, self._ranges[end].high)
            end += 1
        self._ranges[begin:end] = [KeyRange(low, high)]
        if len(self._ranges) > _MOST:
            self._ranges[:2] = [KeyRange(self._ranges[0].low, self._ranges[1].high)]

    def _first(self, keys: KeyRange) -> int:
        """The first range that does not end before these keys."""
        return bisect_left(self._ranges, keys.low, key=lambda part: part.high)
