"""Values that changed rows keep from the table: those that an event left out, and columns that events lack.

A MERGE leaves them as they are, or joins them from another row. Here the row goes to another file, so they
are read where the row stood, and written with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from adapters.lakehouse.files.key_matches import BatchKeys, KeyMatches, column_numbers, names_in
from adapters.lakehouse.port import BASE, DELETED, KEEP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from adapters.lakehouse.files.data_file import FileColumn, TableFile
    from adapters.lakehouse.files.roaring import Positions
    from adapters.lakehouse.port import Batch

_MOST_BYTES: Final = 256 << 20
"""Bytes of columns that are read for a batch. Beyond it Spark reads them."""
_NOWHERE: Final = -1
Flags: TypeAlias = npt.NDArray[np.bool_]


@dataclass(slots=True)
class KeptValues:
    """Gathers them, file by file.

    - `flags`: which rows of the batch keep the value of a column
    - `bases`: the keys of rows whose values others take, which are `movers` of the batch
    """

    columns: Sequence[FileColumn]
    flags: Mapping[str, Flags]
    bases: BatchKeys | None
    movers: npt.NDArray[np.int64]
    needs_own: Flags
    found: list[pa.Table] = field(default_factory=list)
    rows: list[npt.NDArray[np.int64]] = field(default_factory=list)
    bytes: int = 0

    @classmethod
    def of(cls, batch: Batch, columns: Sequence[FileColumn]) -> Self | None:
        """None if two rows take another one's values, or Spark must find it."""
        count, there = batch.rows.num_rows, _flags(batch.rows.column(DELETED), inverted=True)
        kept = {name.lower(): _flags(batch.rows.column(KEEP.format(n))) for n, name in enumerate(batch.kept)}
        given = {name.lower() for name in batch.columns.names}
        flags = {
            column.name: there & kept.get(column.name.lower(), np.ones(count, np.bool_))
            for column in columns
            if column.name.lower() in kept or column.name.lower() not in given
        }
        moved = np.zeros(count, np.bool_)
        bases = None
        if batch.moved:
            moved = _flags(pc.is_valid(batch.rows.column(BASE.format(0))))
            named = {BASE.format(n): name for n, name in enumerate(batch.key)}
            keys = batch.rows.select(list(named)).rename_columns(list(named.values()))
            bases = BatchKeys.of(keys.filter(pa.array(moved)), batch.key, columns)
            if bases is None:
                return None
        keeps = np.logical_or.reduce([np.zeros(count, np.bool_), *flags.values()])
        carried = [column for column in columns if column.name in flags]
        return cls(carried, flags, bases, np.flatnonzero(moved), keeps & ~moved)

    def gather(self, file: TableFile, own: KeyMatches) -> bool:
        """Read the values that a file has. `own`: where changed rows are. False: Spark must read them."""
        ours = self.needs_own[own.rows]
        positions, rows = own.positions[ours], own.rows[ours]
        if self.bases is not None:
            others = self.bases.matches(file.path, file.dead)
            if others is None:
                return False
            positions = np.concatenate([positions, others.positions])
            rows = np.concatenate([rows, self.movers[others.rows]])
        if not len(rows):
            return True
        order = np.argsort(positions)
        self.rows.append(rows[order])
        with pq.ParquetFile(file.path) as opened:
            names = names_in(opened, self.columns)
            if names is None:
                return False
            self.bytes += _size(opened, {name for name in names if name is not None})
            if self.bytes > _MOST_BYTES:
                return False
            self.found += _read(opened, positions[order], list(zip(names, self.columns, strict=True)))
        return True

    def into(self, rows: pa.Table, at: npt.NDArray[np.int64]) -> pa.Table:
        """The new rows with what they keep. `at`: their numbers in the batch; the columns are those of files.

        What is not found stays as the batch has it, and is null if it was to be another row's.
        """
        if not self.columns:
            return rows
        schema = pa.schema([column.field for column in self.columns])
        found = pa.concat_tables([schema.empty_table(), *self.found])
        places = np.full(len(self.needs_own), _NOWHERE)
        numbers = np.concatenate([np.empty(0, np.int64), *self.rows])
        places[numbers] = np.arange(len(numbers))
        moved = np.zeros(len(self.needs_own), np.bool_)
        moved[self.movers] = True
        indices = pa.array(places[at], mask=places[at] == _NOWHERE)
        for column in self.columns:
            name = column.field.name
            taken = found.column(name).take(indices)
            keeps = self.flags[column.name][at] & ((places[at] != _NOWHERE) | moved[at])
            there = rows.schema.get_field_index(name)
            ours = pa.nulls(len(at), column.field.type) if there < 0 else rows.column(name)
            values = pc.if_else(pa.array(keeps), taken, ours)
            rows = (
                rows.append_column(column.field, values)
                if there < 0
                else rows.set_column(there, column.field, values)
            )
        return rows


def _flags(values: pa.ChunkedArray, *, inverted: bool = False) -> Flags:
    flags: Flags = pc.fill_null(values, fill_value=False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return ~flags if inverted else flags


def _size(file: pq.ParquetFile, names: AbstractSet[str]) -> int:
    """Bytes of columns in memory, about, if all are read."""
    begun = tuple(f"{name}." for name in names)
    numbers = [n for path, n in column_numbers(file).items() if path in names or path.startswith(begun)]
    groups = map(file.metadata.row_group, range(file.num_row_groups))
    return sum(group.column(number).total_uncompressed_size for group in groups for number in numbers)


def _read(
    file: pq.ParquetFile, positions: Positions, columns: Sequence[tuple[str | None, FileColumn]]
) -> Iterator[pa.Table]:
    """Rows at places that are in order. Columns come with their names in the file; lacking ones are null."""
    schema, begin = pa.schema([column.field for _name, column in columns]), 0
    names = [name for name, _column in columns if name is not None]
    for number in range(file.num_row_groups):
        end = begin + file.metadata.row_group(number).num_rows
        inside = positions[(positions >= begin) & (positions < end)] - begin
        if len(inside):
            read = file.read_row_group(number, names).take(pa.array(inside))
            yield pa.Table.from_arrays(
                [
                    pa.nulls(len(inside), column.field.type)
                    if name is None
                    else read.column(name).cast(column.field.type)
                    for name, column in columns
                ],
                schema=schema,
            )
        begin = end
