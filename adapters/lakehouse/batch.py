"""The changes of a table as the rows of a batch. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adapters.lake.column_types import TEXT_SUFFIX, column, column_type, exactly, has_special_text, has_text
from adapters.lake.row_columns import value
from adapters.lakehouse.digests import digests
from adapters.lakehouse.port import BASE, DELETED, KEEP, Batch
from engine.errors import SinkRefused
from engine.verify.compared_digests import DIGEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from adapters.jdbc.folding.fold import Fold
    from adapters.jdbc.folding.missing_values import Patches
    from adapters.lake.row_columns import Columns
    from engine.events.record.schema import Schema
    from engine.events.values.text import Ints

_NOWHERE: Final = -1
_NAN: Final = "postgresql"
"""Its decimals may be NaN."""


def table_columns(columns: Columns) -> pa.Schema:
    """The columns of a replica, in order; each that can't hold all values has one of texts beside it."""
    fields = []
    for name, schema in columns.all.items():
        fields.append(pa.field(name, column_type(schema)))
        if _text_of(name, schema, columns):
            fields.append(pa.field(name + TEXT_SUFFIX, pa.string()))
    return pa.schema(fields)


def _text_of(name: str, schema: Schema, columns: Columns) -> str:
    """The column with the texts of another, empty if it has none."""
    beside = name + TEXT_SUFFIX
    odd = has_text(schema) or (columns.connector == _NAN and has_special_text(schema))
    return beside if odd and beside not in columns.all else ""


def key_columns(columns: Columns) -> tuple[str, ...]:
    """The columns by which rows are found."""
    found: list[str] = []
    for name, schema in columns.key:
        found += filter(None, (name, _text_of(name, schema, columns)))
    return tuple(found)


def replica_batch(fold: Fold) -> Batch:
    """What a replica gets. Raises SinkRefused if its values can't be those of the columns."""
    columns = fold.events.columns
    wanted, key = table_columns(columns), key_columns(columns)
    patches = fold.patches()
    kept = () if patches is None else tuple(_with_texts(patches.taken, columns))
    shape = _shape(wanted, key, kept)
    made = [_rows(batch, its, wanted, key, shape) for batch, its in fold.whole()]
    made += [_rows(batch, its, wanted, key, shape, deleted=True) for batch, its in fold.gone()]
    if patches is not None:
        made.append(_patched(fold, patches, wanted, key, shape))
    return Batch(
        rows=pa.Table.from_batches(made, shape),
        columns=wanted,
        key=key,
        truncated=fold.events.truncated,
        only_reads=fold.only_reads,
        kept=kept,
        moved=patches is not None and bool(patches.moved.any()),
        texts=frozenset(
            filter(None, (_text_of(name, schema, columns) for name, schema in columns.all.items()))
        ),
    )


def _with_texts(names: Mapping[str, Ints], columns: Columns) -> Iterator[str]:
    for name in names:
        yield name
        if text := _text_of(name, columns.all[name], columns):
            yield text


def _shape(wanted: pa.Schema, key: tuple[str, ...], kept: tuple[str, ...]) -> pa.Schema:
    flags = [pa.field(KEEP.format(number), pa.bool_()) for number in range(len(kept))]
    base = [pa.field(BASE.format(number), wanted.field(name).type) for number, name in enumerate(key)]
    return pa.schema([*wanted, pa.field(DELETED, pa.bool_()), *flags, *(base if kept else [])])


def _rows(
    batch: pa.RecordBatch,
    columns: Columns,
    wanted: pa.Schema,
    key: tuple[str, ...],
    shape: pa.Schema,
    *,
    deleted: bool = False,
) -> pa.RecordBatch:
    """Events as rows; of those that are deleted only the key counts."""
    found = convert_columns(batch, columns, keys_only=deleted)
    count = batch.num_rows
    found[DELETED] = pa.repeat(pa.scalar(deleted), count)
    arrays = []
    for field in shape:
        array = (
            None
            if deleted and field.name in wanted.names and field.name not in key
            else found.get(field.name)
        )
        arrays.append(pa.nulls(count, field.type) if array is None else as_type(array, field))
    return pa.RecordBatch.from_arrays(arrays, schema=shape)


def convert_columns(
    batch: pa.RecordBatch, columns: Columns, *, keys_only: bool = False
) -> dict[str, pa.Array]:
    """The values of typed events by the replica's columns."""
    found: dict[str, pa.Array] = {}
    given = [] if keys_only else [(name, schema, value(batch, name)) for name, schema in columns.row]
    members = batch.column("key").flatten() if columns.key else []
    given += [(name, schema, member) for (name, schema), member in zip(columns.key, members, strict=True)]
    for name, schema, values in given:
        made = column(values, schema)
        found[name] = made.values
        if text := _text_of(name, schema, columns):
            found[text] = pa.nulls(batch.num_rows, pa.string()) if made.texts is None else made.texts
    return found


def digested_keys(fold: Fold, rows: Ints) -> pa.Array:
    """The digests of the keys of these events of a fold, as the replica has them."""
    if not len(rows):
        return pa.array([], DIGEST)
    columns = fold.events.columns
    wanted = table_columns(columns)
    return digests(
        [fold.events.gathered(rows, _ConvertedColumn(wanted.field(name))) for name in key_columns(columns)]
    )


def with_removals(batch: Batch | None, removed: Sequence[pa.RecordBatch]) -> Batch:
    """A batch that also deletes rows with these keys, which only the table has.

    A key that an event concerns came back since it was to be deleted.
    """
    keys = _concatenated(list(map(pa.Table.from_batches, ([keys] for keys in removed))))
    if batch is not None:
        there = _key_digests(batch.rows, batch.key)
        again = pc.is_in(_key_digests(keys, batch.key), value_set=there)
        keys = keys.filter(pc.invert(again))
    gone = keys.append_column(DELETED, pa.repeat(pa.scalar(value=True), len(keys)))
    if batch is None:
        return Batch(gone, keys.schema, tuple(keys.column_names))
    rows = _concatenated([batch.rows, gone])
    columns = pa.schema([rows.schema.field(name) for name in batch.columns.names])
    return replace(batch, rows=rows, columns=columns, only_reads=False)


def _concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    """Rows with columns of the wider types. Raises SinkRefused if there is none."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise SinkRefused(
            f"rows can't be deleted: the type of the table's key has changed: {error}",
            hint="take a snapshot of the table",
        ) from error


def _key_digests(rows: pa.Table, key: Sequence[str]) -> pa.Array:
    return digests([rows.column(name).combine_chunks() for name in key])


def as_type(array: pa.Array, field: pa.Field) -> pa.Array:
    """Values of an earlier type of a column as its newest. Raises SinkRefused if that would change one."""
    if array.type == field.type:
        return array
    try:
        made = exactly(array, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        made = None
    if made is None:
        raise SinkRefused(
            f"the column {field.name!r} has changed its type, and a value of before does not fit into"
            f" {field.type}",
            hint="take a snapshot of the table",
        )
    return made


def _patched(
    fold: Fold, patches: Patches, wanted: pa.Schema, key: tuple[str, ...], shape: pa.Schema
) -> pa.RecordBatch:
    """Rows that lack values: those of other events of the turn, and flags for those that the table has."""
    count, found = len(patches.rows), dict[str, pa.Array]()
    found[DELETED] = pa.repeat(pa.scalar(value=False), count)
    columns = fold.events.columns
    kept = list(_with_texts(patches.taken, columns))
    texts = {_text_of(name, schema, columns): name for name, schema in columns.all.items()}
    for field in wanted:
        taken = patches.taken.get(texts.get(field.name, field.name), patches.rows)
        found[field.name] = fold.events.gathered(taken, _ConvertedColumn(field))
        if field.name in kept:
            flags = (taken == _NOWHERE) & (patches.base != _NOWHERE)
            found[KEEP.format(kept.index(field.name))] = pa.array(flags)
    base = fold.of_key(np.where(patches.moved, patches.base, _NOWHERE))
    for number, name in enumerate(key):
        found[BASE.format(number)] = fold.events.gathered(base, _ConvertedColumn(wanted.field(name)))
    return pa.RecordBatch.from_arrays([as_type(found[field.name], field) for field in shape], schema=shape)


@dataclass(frozen=True, slots=True)
class _ConvertedColumn:
    """Gives a column of events."""

    field: pa.Field

    def __call__(self, batch: pa.RecordBatch, columns: Columns) -> pa.Array:
        found = convert_columns(batch, columns).get(self.field.name)
        return pa.nulls(batch.num_rows, self.field.type) if found is None else as_type(found, self.field)
