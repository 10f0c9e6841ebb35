"""A turn's events of one table, in the order of the log, behind the last truncate. Pure.

They stay in the batches that they came in. A *place* numbers an event in the order of the batches, a *row* in
that of the log.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adapters.jdbc.operations import DELETE, NOWHERE, OPERATIONS, TRUNCATE
from adapters.jdbc.table_rows import key_texts
from adapters.lake.row_columns import Columns, columns_of
from engine.errors import SinkRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from adapters.jdbc.operations import Mask
    from engine.events.values.text import Ints


class PlacedBatch(NamedTuple):
    """Typed events of one table, and the number of the part that they are in."""

    part: int
    events: pa.RecordBatch


class TurnEvents:
    """The events of these batches. `ops` has what each row's does.

    `truncated`: a truncate precedes them. Raises SinkRefused if the table's key can't identify its rows.
    """

    def __init__(self, batches: Sequence[PlacedBatch]) -> None:
        self.batches = [batch.events for batch in batches]
        self.columns_by_batch = [columns_of(batch) for batch in self.batches]
        self._begins = np.cumsum([0, *(batch.num_rows for batch in self.batches)])
        ops = [pc.index_in(batch.column("op"), OPERATIONS) for batch in self.batches]
        parts = np.repeat([batch.part for batch in batches], [len(some) for some in ops])
        orders = [pc.fill_null(batch.column("order"), 0).to_numpy() for batch in self.batches]
        # Rows that were read have no order: they stay as they came.
        order = np.lexsort((np.concatenate(orders), parts))
        every = pa.chunked_array(ops).to_numpy()[order]
        truncates = np.flatnonzero(every == TRUNCATE)
        self.truncated = bool(len(truncates))
        begin = int(truncates[-1]) + 1 if self.truncated else 0
        self.places, self.ops = order[begin:], every[begin:]

    @cached_property
    def columns(self) -> Columns:
        """The table's columns, as its newest event has them, then those that only earlier ones have."""
        last = int(self.places[-1]) if len(self.places) else int(self._begins[-1]) - 1
        newest = self.columns_by_batch[self._batch_of(last)]
        for columns in self.columns_by_batch:
            if dict(columns.key).keys() != dict(newest.key).keys():
                raise SinkRefused(
                    "the table's key has changed within a turn",
                    hint="give its table in the target the new key, or drop it, and take a snapshot",
                )
        named = newest.all
        more = {
            name: schema
            for columns in self.columns_by_batch
            for name, schema in columns.row
            if name not in named
        }
        return Columns(newest.key, (*newest.row, *more.items()), newest.connector)

    @cached_property
    def keys(self) -> pa.DictionaryArray:
        """The keys of all places as fields of COPY; a key's number is its place in the dictionary."""
        found = pa.chunked_array(
            [
                key_texts(batch, columns)
                for batch, columns in zip(self.batches, self.columns_by_batch, strict=True)
            ]
        )
        return found.combine_chunks().dictionary_encode()

    @cached_property
    def codes(self) -> Ints:
        """The number of each row's key."""
        every = pc.fill_null(self.keys.indices, NOWHERE).to_numpy().astype(np.int64)
        codes: Ints = every[self.places]
        if (codes == NOWHERE).any():
            raise SinkRefused("a column of the table's key is null", hint="choose a key without nulls")
        return codes

    def last(self, rows: Mask) -> Ints:
        """For each key its last row among these, -1 for none."""
        last = np.full(len(self.keys.dictionary), NOWHERE)
        at = np.flatnonzero(rows)
        np.maximum.at(last, self.codes[at], at)
        return last

    def key_texts(self, codes: Ints) -> pa.Array:
        """The keys with these numbers as fields of COPY; null for none."""
        return self.keys.dictionary.take(pa.array(codes, mask=codes == NOWHERE))

    def chosen(self, rows: Ints) -> Iterator[tuple[pa.RecordBatch, Columns]]:
        """The events of these rows in the order of their places, batch by batch."""
        return self._at(np.sort(self.places[rows]))

    def _at(self, places: Ints) -> Iterator[tuple[pa.RecordBatch, Columns]]:
        """The events at these places, which ascend, batch by batch."""
        bounds = np.searchsorted(places, self._begins)
        for number, (batch, columns) in enumerate(zip(self.batches, self.columns_by_batch, strict=True)):
            here = places[bounds[number] : bounds[number + 1]] - self._begins[number]
            if len(here):
                yield (batch if len(here) == batch.num_rows else batch.take(pa.array(here))), columns

    def gathered(self, rows: Ints, convert: Callable[[pa.RecordBatch, Columns], pa.Array]) -> pa.Array:
        """What `convert` makes of the events of these rows, in their order; null where there is none."""
        places, at = np.unique(np.where(rows == NOWHERE, 0, self.places[rows]), return_inverse=True)
        found = [convert(batch, columns) for batch, columns in self._at(places)]
        return pa.chunked_array(found).combine_chunks().take(pa.array(at, mask=rows == NOWHERE))

    def came_from_another_key(self, row: int) -> bool:
        """Whether the row before is the deletion under an old key."""
        return row > 0 and self.ops[row - 1] == DELETE and self._has_header(row) and self._has_header(row - 1)

    def _has_header(self, row: int) -> bool:
        place = int(self.places[row])
        number = self._batch_of(place)
        headers = self.batches[number].column("headers")
        return bool(headers[place - int(self._begins[number])].is_valid)

    def _batch_of(self, place: int) -> int:
        return int(np.searchsorted(self._begins, place, "right")) - 1
