"""The keys that cut tables which are being read, and which rows may have moved by them. Pure.

A row that leaves the ranges still to be read and arrives in one already read is read by no window; if the
log left its large value out, nobody sends that value, so the row must be read again. What decides is the key
that *cuts* the table, which may be another than the merge key: a signal's surrogate key, or the primary key
under REPLICA IDENTITY USING INDEX. Of the row before, an update's entry has

    the merge key, where it changed; where the entry has no old row, it did not
    every column, under REPLICA IDENTITY FULL
    nothing else

so a cutting key within the merge key is always known, and any other one only under FULL. Where it is not
known, an update that leaves a value out counts as a move.

            read             left to read
    ├──────────────────────┼───────────────────────┤   by n, the cutting key
               ▲                      │
               └── UPDATE … SET n = … ┘               id, the merge key, stays: no old row in the log

An insert that leaves a value out is a row that came into the publication's row filter: an update in the
table, and nobody has read the row before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from adapters.postgres.server.sql import leading_ident

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from adapters.postgres.log.entries import Entries
    from engine.events.codec import TableCodec
    from engine.events.record.field import Mask
    from engine.events.values.text import Text

KEY, MERGED = "key ", " to merge by"
"""Around a key column's fingerprint in a table's."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The columns that a table's ranges are cut by, and those that its rows are merged by."""

    columns: tuple[str, ...]
    merged: tuple[str, ...]

    @property
    def told(self) -> bool:
        """Whether the log tells of every row whose place changes, under any replica identity."""
        return set(self.columns) <= set(self.merged)

    def moved(self, entries: Entries, codec: TableCodec) -> Mask | None:
        """Which rows' place may have changed; None where the rows had another merge key than this one.

        The table was defined otherwise then. No window of this cut was open before it was changed, so each
        shows what those entries did.
        """
        if tuple(codec.columns[at] for at in codec.merge_key) != self.merged:
            return None
        if entries.new is None or entries.op == "c":
            return np.full(len(entries.messages), entries.op == "c")
        if entries.old is None:
            return np.full(len(entries.messages), not self.told)
        if not (self.told or entries.full) or not set(self.columns) <= set(codec.columns):
            return np.ones(len(entries.messages), bool)
        # Under another merge key a consumer may know it as another row, wherever it is.
        places = [codec.columns.index(name) for name in {*self.columns, *self.merged}]
        return _different(entries.old.columns, entries.new.columns, places)


@lru_cache(maxsize=1_000)  # asked at each turn for every table that is being read
def cut_of(fingerprint: tuple[str, ...]) -> Cut:
    """What a table is cut and merged by, from its fingerprint (`ReadTable.fingerprint`)."""
    keys = [trait.removeprefix(KEY) for trait in fingerprint if trait.startswith(KEY)]
    columns = tuple(leading_ident(key) for key in keys if not key.endswith(MERGED))
    return Cut(columns, tuple(leading_ident(key) for key in keys if key.endswith(MERGED)) or columns)


def moved(cuts: Iterable[Cut], entries: Entries, codec: TableCodec) -> Mask:
    """Which rows' place may have changed by one of the keys that cut their table."""
    rows = np.zeros(len(entries.messages), bool)
    for cut in cuts:
        found = cut.moved(entries, codec)
        if found is not None:
            rows |= found
    return rows


def _different(old: Sequence[Text], new: Sequence[Text], places: Sequence[int]) -> Mask:
    """Where one of these columns has another text, or is NULL on one side alone."""
    rows = np.zeros(len(new[0]), bool)
    for at in places:
        before, after = old[at], new[at]
        differs = pc.fill_null(pc.not_equal(before, after), fill_value=True)
        both_null = pc.and_(before.is_null(), after.is_null())
        rows |= pc.and_not(differs, both_null).to_numpy(zero_copy_only=False)
    return rows
