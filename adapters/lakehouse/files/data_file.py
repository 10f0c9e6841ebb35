"""Rows as a data file in Parquet, which a table of either format takes as it is.

Spark writes a row at a time, and compiles code for each write anew. Arrow's columns become those of Parquet
as they are. So rows of a table that asks for nothing else, as a partition or a constraint, go into a
file, which the format's commit adds. Everything else is a statement of Spark's.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from adapters.lakehouse.files.key_matches import Bounds
    from adapters.lakehouse.files.roaring import Positions

_PRIMITIVES: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
}
"""The types whose names tell one thing in both formats."""
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_SPARK: Final = "org.apache.spark.version"
"""Tells readers that old dates are of the Gregorian calendar, as newer versions of Spark write them."""
FIELD_ID: Final = b"PARQUET:field_id"
_AS: Final[Mapping[pa.DataType, pa.DataType]] = {
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.float32(): pa.float64(),
}
_LONGEST: Final = 32
"""Characters of a text that stand in statistics."""


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column of a table's data files: its `name` in the table, its field there, and a struct's members."""

    name: str
    field: pa.Field
    members: tuple[FileColumn, ...] = ()


class DataFile(NamedTuple):
    """A file that was written, and what is known of its columns, by the names of their fields."""

    path: Path
    written_ms: int
    bytes: int
    rows: int
    nulls: Mapping[str, int]
    bounds: Mapping[str, tuple[Any, Any]]


class TableFile(NamedTuple):
    """A data file of a table: its name there, its path on a local disk, and its rows that are dead."""

    name: str
    path: str
    dead: Positions


class DeadRows(NamedTuple):
    """Rows of a file that are to be dead from now on."""

    file: TableFile
    positions: Positions


class FileWrite(Protocol):
    """A write of one file that has begun."""

    @property
    def columns(self) -> Sequence[FileColumn]:
        """The columns of the table's files."""

    @property
    def codec(self) -> str:
        """How files are compressed."""

    def files(self, column: str, bounds: Bounds | None) -> Iterator[TableFile] | None:
        """The table's files that may have rows with values between these in a column, by its name there.

        From here on the commit fails if another one changes rows or files of the table.
        None if rows can't be marked as gone, or a file is not to be read from here.
        """

    def commit(self, file: DataFile | None, gone: Sequence[DeadRows]) -> None:
        """By one commit that carries the turn, add the file, and mark rows of others as gone.

        Fails if the columns have changed since, or if another process has written this turn or a newer one.
        """


def field_of(name: str, kind: pa.DataType, number: int | None, *, nullable: bool = True) -> pa.Field:
    """A field of a file, with the number by which a format knows it."""
    return pa.field(name, kind, nullable, None if number is None else {FIELD_ID: str(number)})


def named_type(name: str, times: Mapping[str, pa.DataType]) -> pa.DataType | None:
    """The type of this name, if both formats or the `times` of one have it; None for any other."""
    if decimal := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return times.get(name) or _PRIMITIVES.get(name)


def members_of(
    struct: Mapping[str, Any], column: Callable[[Mapping[str, Any]], FileColumn | None]
) -> tuple[FileColumn, ...] | None:
    """The columns of a schema or a struct, each by `column`; None if one can't be given as it is."""
    found = [column(field) for field in struct["fields"]]
    made = tuple(member for member in found if member is not None)
    return made if len(made) == len(found) else None


def typed(
    kind: str | Mapping[str, Any],
    column: Callable[[Mapping[str, Any]], FileColumn | None],
    other: Callable[[str | Mapping[str, Any]], pa.DataType | None],
) -> tuple[pa.DataType, tuple[FileColumn, ...]] | None:
    """The type of a column, and a struct's members; None if rows can't be given as they are.

    `column` reads a member of a struct, `other` all types but structs. Parquet can't have empty structs.
    """
    if isinstance(kind, str) or kind["type"] != "struct":
        found = other(kind)
        return None if found is None else (found, ())
    members = members_of(kind, column)
    return (pa.struct([member.field for member in members]), members) if members else None


def fit_rows(rows: pa.Table, columns: Sequence[FileColumn]) -> pa.Table | None:
    """The rows as the files of a table have them; None if only Spark can give them the columns' types.

    A column that the rows lack is left out: it is null.
    """
    given = {name.lower(): rows.column(at) for at, name in enumerate(rows.column_names)}
    fields, found = [], []
    for column in columns:
        values = given.pop(column.name.lower(), None)
        if values is None and column.field.nullable:
            continue
        made = None if values is None else _fitted(values, column)
        if made is None:
            return None
        fields.append(column.field)
        found.append(made)
    return None if given else pa.Table.from_arrays(found, schema=pa.schema(fields))


def _fitted(values: pa.ChunkedArray, column: FileColumn) -> pa.ChunkedArray | None:
    wanted = column.field.type
    if values.null_count and not column.field.nullable:
        return None
    if not column.members:
        return values.cast(wanted) if widens(values.type, wanted) else None
    named = [member.name for member in column.members]
    if not pa.types.is_struct(values.type) or [field.name for field in values.type] != named:
        return None
    made = []
    for chunk in values.chunks:
        parts = [
            _fitted(pa.chunked_array([part]), member)
            for part, member in zip(chunk.flatten(), column.members, strict=True)
        ]
        if None in parts:
            return None
        arrays = [part.combine_chunks() for part in parts if part is not None]
        made.append(pa.StructArray.from_arrays(arrays, fields=list(wanted), mask=chunk.is_null()))
    return pa.chunked_array(made, wanted)


def widens(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a type has each value of another as it is."""
    if pa.types.is_map(given) and pa.types.is_map(wanted):
        return widens(given.key_type, wanted.key_type) and widens(given.item_type, wanted.item_type)
    if _is_list(given) and _is_list(wanted):
        return widens(given.value_type, wanted.value_type)
    if pa.types.is_signed_integer(given) and pa.types.is_signed_integer(wanted):
        return bool(given.bit_width <= wanted.bit_width)
    if pa.types.is_decimal128(given) and pa.types.is_decimal128(wanted):
        more: int = wanted.scale - given.scale
        return bool(0 <= more <= wanted.precision - given.precision)
    return bool(given == wanted or _AS.get(given) == wanted)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def write_file(rows: pa.Table, directory: Path, codec: str, spark: str) -> DataFile:
    """Write a file of a name of its own. `spark` is Spark's version."""
    path = directory / f"part-{uuid.uuid4()}.parquet"
    with pq.ParquetWriter(
        path, rows.schema, compression=codec, store_schema=False, store_decimal_as_integer=True
    ) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({_SPARK: spark})
    flat = [field.name for field in rows.schema if not pa.types.is_struct(field.type)]
    nulls = {name: rows.column(name).null_count for name in flat}
    there = path.stat()
    return DataFile(
        path, there.st_mtime_ns // 10**6, there.st_size, rows.num_rows, nulls, dict(_bounds(rows))
    )


def _bounds(rows: pa.Table) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """The least and the greatest integers, dates and short texts, by which readers leave out files."""
    for name in rows.column_names:
        kind = rows.schema.field(name).type
        if pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_string(kind):
            found = pc.min_max(rows.column(name)).as_py()
            low, high = found["min"], found["max"]
            short = not isinstance(high, str) or max(len(low), len(high)) <= _LONGEST
            if low is not None and short:
                yield name, (low, high)
