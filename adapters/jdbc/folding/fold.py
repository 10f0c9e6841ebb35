"""Folds a turn's events of one table into what is to be done: one row or one deletion for each key. Pure.

The events are put into the order of the log. What precedes the last truncate is dropped. Of each key the last
event counts: a delete removes its row, all others write it.

An event may lack values: those that the log left out because an update did not change them, for which a
placeholder stands, and those of a column that the table had not yet, or has no more. Such a value is that of
the nearest earlier event of the key in the turn that has it. If there is none, it is the one in the target's
row. A row whose key changes is deleted under its old key and created under its new one, by two events one
after the other, so the search goes on with the old key:

    turn:   u  key 1  note=…, text=<placeholder>       text is not in the turn,
            d  key 1                                   and the row came from key 1:
            c  key 2  note=…, text=<placeholder>       key 2 is written with text of the target's row 1

So the target's values are looked up before anything is deleted.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from adapters.jdbc.folding.missing_values import MissingValues
from adapters.jdbc.folding.operations import DELETE, NOWHERE, READ, UPDATE
from engine.errors import SinkRefused

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from adapters.jdbc.folding.missing_values import Patches
    from adapters.jdbc.folding.operations import Mask
    from adapters.jdbc.folding.turn_events import TurnEvents
    from adapters.jdbc.placeholders import Placeholders
    from adapters.lake.row_columns import Columns
    from engine.events.values.text import Ints, Text


class Fold:
    """What is to be done for a turn's `events` of one table.

    Raises SinkRefused if the table can't be written.
    """

    def __init__(self, events: TurnEvents, placeholders: Placeholders) -> None:
        self.events, self._missing = events, MissingValues(events, placeholders)

    @property
    def only_reads(self) -> bool:
        """Whether all events are of rows that were read."""
        return bool((self.events.ops == READ).all())

    @cached_property
    def _last(self) -> Ints:
        """For each key its last event, -1 for none."""
        return self.events.last(np.ones(len(self.events.ops), bool))

    @cached_property
    def _finals(self) -> Ints:
        return np.sort(self._last[self._last != NOWHERE])

    def of_key(self, codes: Ints) -> Ints:
        """An event of each of the keys with these numbers, -1 where there is no key."""
        return np.where(codes == NOWHERE, NOWHERE, self._last[codes])

    def touched(self) -> tuple[Ints, Mask, Mask]:
        """The last event of each key behind the last truncate.

        Two masks say whether it lacks a value, and whether it is an update.
        """
        finals = self._finals
        return finals, self._missing.anywhere[finals], self.events.ops[finals] == UPDATE

    def keys_of(self, rows: Ints) -> Text:
        """The keys of these events, as fields of COPY."""
        return self.events.key_texts(self.events.codes[rows])

    @cached_property
    def deletions(self) -> Ints:
        """The events that delete the rows that are to be deleted."""
        gone: Ints = self._finals[self.events.ops[self._finals] == DELETE]
        return gone

    def gone(self) -> Iterator[tuple[pa.RecordBatch, Columns]]:
        """The same, batch by batch."""
        return self.events.chosen(self.deletions)

    @cached_property
    def _writes(self) -> Ints:
        writes: Ints = self._finals[self.events.ops[self._finals] != DELETE]
        return writes

    def whole(self) -> Iterator[tuple[pa.RecordBatch, Columns]]:
        """The events of the rows to be written that have all values, batch by batch."""
        for taken, columns in self.events.chosen(self._writes[~self._missing.anywhere[self._writes]]):
            _refuse_patches(taken)
            yield taken, columns

    def patches(self) -> Patches | None:
        """The rows to be written that lack values; None if there are none."""
        return self._missing.patches(self._writes)


def _refuse_patches(batch: pa.RecordBatch) -> None:
    """MongoDB's updates may have no document."""
    if batch.column("after").null_count:
        raise SinkRefused(
            "an update has no document, only what it changes",
            hint="set capture.mode=change_streams_update_full",
        )
