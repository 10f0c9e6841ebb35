"""The keys that cut tables being read into ranges, and which rows may have moved between ranges. Pure.

A row that moves from a range still to be read into one already read is read by no window. If the log also
left its large value out, nobody sends that value, so the row must be read again. What decides is the key that
*cuts* the table. It may differ from the merge key: a signal's surrogate key, or the primary key under REPLICA
IDENTITY USING INDEX. About the old row an update's entry has

    the merge key, if it changed; without an old row in the entry, it did not change
    every column, under REPLICA IDENTITY FULL
    nothing else

So a cutting key within the merge key is always known, and any other cutting key only under FULL. Where it is
not known, an update that leaves a value out counts as a move.

            read             left to read
    ├──────────────────────┼───────────────────────┤   by n, the cutting key
               ▲                      │
               └── UPDATE … SET n = … ┘               id, the merge key, stays: no old row in the log

An insert that leaves a value out is a row that came into the publication's row filter. In the table it was an
update, and nobody has read the row before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from adapters.postgres.server.sql import leading_ident
from engine.snapshot.merge_key import key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from adapters.postgres.log.entries import Entries
    from adapters.postgres.log.pending_visibility import Pairs
    from engine.events.codec import TableCodec
    from engine.events.record.field import Mask
    from engine.events.values.text import Text
    from engine.model import CollectionId
    from engine.ports.source import Moved, Reading

KEY, MERGED = "key ", " to merge by"
"""What surrounds a key column's fingerprint in a table's fingerprint."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The columns that a table's ranges are cut by, and the columns that its rows are merged by."""

    columns: tuple[str, ...]
    merged: tuple[str, ...]

    @property
    def always_logged(self) -> bool:
        """Whether the log shows every row whose cutting key changes, under any replica identity."""
        return set(self.columns) <= set(self.merged)

    def moved_rows(self, entries: Entries, codec: TableCodec) -> Mask | None:
        """The rows whose place may have changed; None if the rows had another merge key than this one.

        The table had another definition then. No window of this cut was open before the change, so each
        window's snapshot shows what those entries did.
        """
        if tuple(codec.columns[at] for at in codec.merge_key) != self.merged:
            return None
        if entries.new is None or entries.op == "c":
            return np.full(len(entries.messages), entries.op == "c")
        if entries.old is None:
            return np.full(len(entries.messages), not self.always_logged)
        if not (self.always_logged or entries.full) or not set(self.columns) <= set(codec.columns):
            return np.ones(len(entries.messages), bool)
        # Under another merge key a consumer may take it for another row, wherever it is.
        places = [codec.columns.index(name) for name in {*self.columns, *self.merged}]
        return _different(entries.old.columns, entries.new.columns, places)


@lru_cache(maxsize=1_000)  # asked at each turn for every table being read
def cut_of(fingerprint: tuple[str, ...]) -> Cut:
    """The keys that cut and merge a table, from its fingerprint (`ReadTable.fingerprint`)."""
    keys = [trait.removeprefix(KEY) for trait in fingerprint if trait.startswith(KEY)]
    columns = tuple(leading_ident(key) for key in keys if not key.endswith(MERGED))
    return Cut(columns, tuple(leading_ident(key) for key in keys if key.endswith(MERGED)) or columns)


def moved_rows(cuts: Iterable[Cut], entries: Entries, codec: TableCodec) -> Mask:
    """The rows whose place may have changed in one of the keys that cut their table."""
    rows = np.zeros(len(entries.messages), bool)
    for cut in cuts:
        found = cut.moved_rows(entries, codec)
        if found is not None:
            rows |= found
    return rows


def moves_by_cut(pairs: Mapping[CollectionId, Pairs], reading: Reading) -> Moved:
    """For each key that cuts a table, those keys of moved rows that have as many columns as its merge key.

    A change of the key waits for all who write. So what was written under the key before is in the snapshot
    of each window that is opened under the new one.
    """
    return {
        (table, fingerprint): _as_wide(moved, len(cut_of(fingerprint).merged))
        for table, moved in pairs.items()
        for fingerprint in reading.get(table, ())
    }


def _as_wide(pairs: Pairs, columns: int) -> Pairs:
    return frozenset(pair for pair in pairs if len(key_of(pair[1])) == columns)


def _different(old: Sequence[Text], new: Sequence[Text], places: Sequence[int]) -> Mask:
    """The rows where one of these columns has another text, or is NULL on one side only."""
    rows = np.zeros(len(new[0]), bool)
    for at in places:
        before, after = old[at], new[at]
        differs = pc.fill_null(pc.not_equal(before, after), fill_value=True)
        both_null = pc.and_(before.is_null(), after.is_null())
        rows |= pc.and_not(differs, both_null).to_numpy(zero_copy_only=False)
    return rows
