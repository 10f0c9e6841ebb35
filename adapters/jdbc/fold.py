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
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from adapters.jdbc.column_types import escaped
from adapters.jdbc.table_rows import column_texts, default_text, key_texts, lines
from adapters.lake.row_columns import Columns, columns_of, value
from engine.errors import SinkRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from adapters.jdbc.placeholders import Placeholders
    from engine.events.record.schema import Schema
    from engine.events.values.text import Ints, Text

Mask = npt.NDArray[np.bool_]
_OPS: Final = pa.array(["c", "u", "d", "t", "r"], pa.large_string())
_CREATE, _UPDATE, _DELETE, _TRUNCATE, _READ = range(5)
_NOWHERE: Final = -1


class PlacedBatch(NamedTuple):
    """Typed events of one table, and the number of the part that they are in."""

    part: int
    events: pa.RecordBatch


class Patches(NamedTuple):
    """Rows to be written that lack values.

    - `rows` are their events
    - `taken` has, by column, the events whose values they get; -1: the target's value is kept
    - `base` are the keys of the target's rows that have those, -1 where there is none: a row that is new has
      the column's default
    - `moved` says which of them had another key
    """

    rows: Ints
    taken: dict[str, Ints]
    base: Ints
    moved: Mask


class Fold:
    """A turn's events of one table. Raises SinkRefused if the table can't be written."""

    def __init__(self, batches: Sequence[PlacedBatch], placeholders: Placeholders) -> None:
        self._batches = [batch.events for batch in batches]
        self._columns = [columns_of(batch) for batch in self._batches]
        self._placeholders = placeholders
        self._begins = np.cumsum([0, *(batch.num_rows for batch in self._batches)])
        ops = [pc.index_in(batch.column("op"), _OPS) for batch in self._batches]
        parts = np.repeat([batch.part for batch in batches], [len(some) for some in ops])
        orders = [pc.fill_null(batch.column("order"), 0).to_numpy() for batch in self._batches]
        # Rows that were read have no order: they stay as they came.
        order = np.lexsort((np.concatenate(orders), parts))
        every = pa.chunked_array(ops).to_numpy()[order]
        truncates = np.flatnonzero(every == _TRUNCATE)
        self.truncated = bool(len(truncates))
        begin = int(truncates[-1]) + 1 if self.truncated else 0
        self._rows, self._ops = order[begin:], every[begin:]

    @cached_property
    def columns(self) -> Columns:
        """The table's columns, as its newest event has them, then those that only earlier ones have."""
        last = int(self._rows[-1]) if len(self._rows) else int(self._begins[-1]) - 1
        newest = self._columns[int(np.searchsorted(self._begins, last, "right")) - 1]
        for columns in self._columns:
            if dict(columns.key).keys() != dict(newest.key).keys():
                raise SinkRefused(
                    "the table's key has changed within a turn",
                    hint="give its table in the target the new key, or drop it, and take a snapshot",
                )
        named = newest.all
        more = {
            name: schema for columns in self._columns for name, schema in columns.row if name not in named
        }
        return Columns(newest.key, (*newest.row, *more.items()), newest.connector)

    @cached_property
    def _keys(self) -> pa.DictionaryArray:
        found = pa.chunked_array(
            [key_texts(batch, columns) for batch, columns in zip(self._batches, self._columns, strict=True)]
        )
        return found.combine_chunks().dictionary_encode()

    @cached_property
    def _codes(self) -> Ints:
        """The number of each row's key."""
        every = pc.fill_null(self._keys.indices, _NOWHERE).to_numpy().astype(np.int64)
        codes: Ints = every[self._rows]
        if (codes == _NOWHERE).any():
            raise SinkRefused("a column of the table's key is null", hint="choose a key without nulls")
        return codes

    def _last(self, rows: Mask) -> Ints:
        """For each key its last event among these, -1 for none."""
        last = np.full(len(self._keys.dictionary), _NOWHERE)
        at = np.flatnonzero(rows)
        np.maximum.at(last, self._codes[at], at)
        return last

    @cached_property
    def _finals(self) -> Ints:
        last = self._last(np.ones(len(self._rows), bool))
        return np.sort(last[last != _NOWHERE])

    def touched(self) -> tuple[Text, Mask, Mask]:
        """The keys of events behind the last truncate, as fields of COPY.

        Two masks say whether the last event of each lacks a value, and whether it is an update.
        """
        finals = self._finals
        lacks = self._partial[finals] if self._lacking else np.zeros(len(finals), bool)
        return self._key_lines(self._codes[finals]), lacks, self._ops[finals] == _UPDATE

    @cached_property
    def _deletions(self) -> Ints:
        gone: Ints = self._finals[self._ops[self._finals] == _DELETE]
        return gone

    def gone(self) -> Iterator[tuple[pa.RecordBatch, Columns]]:
        """The events that delete the rows that are to be deleted, batch by batch."""
        return self._chosen(np.sort(self._rows[self._deletions]))

    def deletes(self) -> Text | None:
        """The keys whose rows are to be deleted, as lines of COPY that end in `t`; None if there are none."""
        gone = self._deletions
        true = pa.repeat(pa.scalar("t", pa.large_string()), len(gone))
        return lines([self._key_lines(self._codes[gone]), true]) if len(gone) else None

    def _key_lines(self, codes: Ints) -> Text:
        return self._keys.dictionary.take(pa.array(codes, mask=codes == _NOWHERE))

    @cached_property
    def _writes(self) -> Ints:
        writes: Ints = self._finals[self._ops[self._finals] != _DELETE]
        return writes

    def whole(self) -> Iterator[tuple[pa.RecordBatch, Columns]]:
        """The events of the rows to be written that have all values, batch by batch."""
        chosen = self._writes[~self._partial[self._writes]] if self._lacking else self._writes
        for taken, columns in self._chosen(np.sort(self._rows[chosen])):
            _refuse_patches(taken)
            yield taken, columns

    def rows(self) -> Iterator[Text]:
        """The rows to be written that have all values, as lines of COPY, batch by batch."""
        names = list(self.columns.all)
        for taken, columns in self.whole():
            yield lines(column_texts(taken, columns, names))

    @property
    def only_reads(self) -> bool:
        """Whether all events are of rows that were read."""
        return bool((self._ops == _READ).all())

    def _chosen(self, places: Ints) -> Iterator[tuple[pa.RecordBatch, Columns]]:
        """The events at these places, which ascend, batch by batch."""
        bounds = np.searchsorted(places, self._begins)
        for number, (batch, columns) in enumerate(zip(self._batches, self._columns, strict=True)):
            here = places[bounds[number] : bounds[number + 1]] - self._begins[number]
            if len(here):
                yield (batch if len(here) == batch.num_rows else batch.take(pa.array(here))), columns

    @cached_property
    def _lacking(self) -> dict[str, Mask]:
        """By column, the events that lack a value of it. A column of which none is lacking is left out."""
        found: dict[str, Mask] = {}
        for name, schema in self.columns.all.items():
            masks = [
                self._lacks(batch, columns, updates, name, schema)
                for batch, columns, updates in zip(self._batches, self._columns, self._updates, strict=True)
            ]
            lacking = np.concatenate(masks)[self._rows]
            lacking &= self._ops != _DELETE
            if lacking.any():
                found[name] = lacking
        return found

    def _lacks(
        self, batch: pa.RecordBatch, columns: Columns, updates: pa.Array | None, name: str, schema: Schema
    ) -> Mask:
        none = np.zeros(batch.num_rows, bool)
        if name in dict(columns.key):
            return none
        if name not in dict(columns.row):
            return ~none
        found = None if updates is None else self._placeholders(value(batch, name), schema)
        if found is None:
            return none
        lacking: Mask = pc.fill_null(pc.and_(updates, found), fill_value=False).to_numpy(zero_copy_only=False)
        return lacking

    @cached_property
    def _updates(self) -> list[pa.Array | None]:
        """By batch, which events may have placeholders: updates, and rows under a new key."""
        return [_updates_in(batch) for batch in self._batches]

    @cached_property
    def _partial(self) -> Mask:
        """The events that lack a value."""
        partial: Mask = np.logical_or.reduce(list(self._lacking.values()))
        return partial

    def patches(self) -> Patches | None:
        """The rows to be written that lack values; None if there are none."""
        if not self._lacking:
            return None
        rows = self._writes[self._partial[self._writes]]
        if not len(rows):
            return None
        base = np.full(len(rows), _NOWHERE)
        taken = {name: self._taken(name, rows, base) for name in self._lacking}
        return Patches(rows, taken, base, (base != _NOWHERE) & (base != self._codes[rows]))

    def patched(self) -> Text | None:
        """The rows to be written that lack values, as lines of COPY; None if there are none.

        Behind its columns a row has a 1 for each column of which the target's value is kept, else a 0, and
        the key of the target's row that has it.
        """
        patches = self.patches()
        if patches is None:
            return None
        fields, kept = [], list[pa.Scalar | pa.Array]()
        for name, schema in self.columns.all.items():
            taken = patches.taken.get(name, patches.rows)
            fields.append(self._gathered(name, schema, taken))
            kept.append(pc.cast(pa.array(taken == _NOWHERE), pa.int8()).cast(pa.large_string()))
        flags = pc.binary_join_element_wise(*kept, pa.scalar("", pa.large_string()))
        width = len(self.columns.key)
        none = pa.scalar("\t".join(["\\N"] * width), pa.large_string())
        return lines([*fields, flags, pc.fill_null(self._key_lines(patches.base), none)])

    def gathered(self, rows: Ints, convert: Callable[[pa.RecordBatch, Columns], pa.Array]) -> pa.Array:
        """What `convert` makes of these events, in their order; null where there is none."""
        places, at = np.unique(np.where(rows == _NOWHERE, 0, self._rows[rows]), return_inverse=True)
        found = [convert(batch, columns) for batch, columns in self._chosen(places)]
        return pa.chunked_array(found).combine_chunks().take(pa.array(at, mask=rows == _NOWHERE))

    def of_key(self, codes: Ints) -> Ints:
        """An event of each of these keys, -1 where there is no key."""
        last = self._last(np.ones(len(self._rows), bool))
        return np.where(codes == _NOWHERE, _NOWHERE, last[codes])

    def _taken(self, name: str, rows: Ints, base: Ints) -> Ints:
        """The event whose value of a column each row has, -1 for the target's; notes in `base` whose."""
        lacking = self._lacking[name]
        codes = self._codes[rows]
        deleted = self._last(self._ops == _DELETE)[codes]
        given = self._last((self._ops != _DELETE) & ~lacking)[codes]
        created = self._last(self._ops == _CREATE)[codes]
        taken = np.where(lacking[rows], _NOWHERE, rows)
        found = (taken == _NOWHERE) & (given > deleted)
        taken[found] = given[found]
        unknown = taken == _NOWHERE
        own = unknown & (created <= deleted) & (deleted == _NOWHERE)
        base[own] = codes[own]
        for at in np.flatnonzero(unknown & (created > deleted)):
            taken[at], base[at] = self._from_old_key(int(created[at]), lacking)
        return taken

    def _from_old_key(self, created: int, lacking: Mask) -> tuple[int, int]:
        """The event that has the value that a row was created without, and the key of the target's row."""
        at = created
        while self._came_from_another_key(at):
            before = np.flatnonzero(self._codes[: at - 1] == self._codes[at - 1])
            for row in reversed(before.tolist()):
                if self._ops[row] == _DELETE:
                    return _NOWHERE, _NOWHERE
                if not lacking[row]:
                    return row, _NOWHERE
                if self._ops[row] == _CREATE:
                    at = row
                    break
            else:
                return _NOWHERE, int(self._codes[at - 1])
        return _NOWHERE, _NOWHERE

    def _came_from_another_key(self, row: int) -> bool:
        """Whether the event before is the deletion under an old key."""
        return (
            row > 0 and self._ops[row - 1] == _DELETE and self._has_header(row) and self._has_header(row - 1)
        )

    def _has_header(self, row: int) -> bool:
        place = int(self._rows[row])
        number = int(np.searchsorted(self._begins, place, "right")) - 1
        headers = self._batches[number].column("headers")
        return bool(headers[place - int(self._begins[number])].is_valid)

    def _gathered(self, name: str, schema: Schema, rows: Ints) -> Text:
        """The values of a column in these events; its default where there is none."""
        taken = self.gathered(rows, lambda batch, columns: column_texts(batch, columns, [name])[0])
        default = pa.array([default_text(schema)], pa.large_string())
        return pc.if_else(pa.array(rows == _NOWHERE), escaped(default)[0], taken)


def _updates_in(batch: pa.RecordBatch) -> pa.Array | None:
    moved = pc.and_(pc.equal(batch.column("op"), "c"), batch.column("headers").is_valid())
    updates = pc.or_(pc.equal(batch.column("op"), "u"), moved)
    return updates if pc.any(updates).as_py() else None


def _refuse_patches(batch: pa.RecordBatch) -> None:
    """MongoDB's updates may have no document."""
    if batch.column("after").null_count:
        raise SinkRefused(
            "an update has no document, only what it changes",
            hint="set capture.mode=change_streams_update_full",
        )
