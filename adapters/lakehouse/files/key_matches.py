"""Finds the rows of a table's data files that have the keys of a batch.

Only key columns are read, of one row group at a time, and only of those whose statistics allow such a key.
Keys are compared as Spark's `<=>` does: null equals null. Types whose equal values differ in Spark or in
files, as floats and times, are left to Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias
from urllib.parse import unquote, urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from adapters.lakehouse.files.data_file import FIELD_ID, fit_rows, widens
from adapters.lakehouse.files.roaring import NONE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from adapters.lakehouse.files.data_file import FileColumn
    from adapters.lakehouse.files.roaring import Positions

_NOWHERE: Final = -1
Codes: TypeAlias = npt.NDArray[np.int64]
"""Numbers of equal values; -1 for values that are not among those."""


class Bounds(NamedTuple):
    """The least and the greatest value of a column of keys."""

    low: Any
    high: Any

    def meets(self, low: Any, high: Any) -> bool:
        """Whether a value between these may be among the keys."""
        return bool(self.low <= high and low <= self.high)


class KeyMatches(NamedTuple):
    """Rows of a file: their positions, and for each the row of the batch that has its key."""

    positions: Positions
    rows: Codes


NO_MATCHES: Final = KeyMatches(NONE, NONE)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of keys: its values of the batch, each once; null bounds are unknown."""

    column: FileColumn
    values: pa.Array
    bounds: Bounds | None

    @classmethod
    def of(cls, column: FileColumn, given: pa.ChunkedArray) -> Self:
        values = pc.unique(given)
        return cls(column, values, _bounds(values))

    @property
    def name(self) -> str:
        """In files."""
        name: str = self.column.field.name
        return name

    def numbers(self, values: pa.Array | pa.ChunkedArray) -> Codes:
        """Numbers of values."""
        found = pc.fill_null(pc.index_in(values, value_set=self.values), _NOWHERE)
        codes: Codes = found.to_numpy(zero_copy_only=False).astype(np.int64)
        return codes

    def paired(self, codes: Codes, numbers: Codes) -> Codes:
        """Numbers for pairs of a code and a number."""
        return np.where((codes < 0) | (numbers < 0), _NOWHERE, codes * len(self.values) + numbers)


@dataclass(frozen=True, slots=True)
class BatchKeys:
    """The keys of a batch, each once, with a code for each.

    The first column's values are numbered. With each further column, pairs of a number and a value are:
    `ranks` has them in order. `rows` has the row of the batch for each code.
    """

    columns: Sequence[_Column]
    ranks: Sequence[Codes]
    rows: Codes

    @classmethod
    def of(cls, rows: pa.Table, key: Sequence[str], columns: Sequence[FileColumn]) -> Self | None:
        """None if Spark must compare them, or if a key is there twice."""
        named = {column.name.lower(): column for column in columns}
        found = [named[name.lower()] for name in key if name.lower() in named]
        if len(found) < len(key) or not all(_comparable(column.field.type) for column in found):
            return None
        values = fit_rows(rows.select(list(key)), found)
        if values is None:
            return None
        made = [_Column.of(*pair) for pair in zip(found, values.columns, strict=True)]
        ranks, codes, count = list[Codes](), NONE, 0
        for number, (member, given) in enumerate(zip(made, values.columns, strict=True)):
            numbers, count = member.numbers(given.combine_chunks()), len(member.values)
            if number:
                pairs = member.paired(codes, numbers)
                ranks.append(np.unique(pairs))
                numbers, count = np.searchsorted(ranks[-1], pairs), len(ranks[-1])
            codes = numbers
        return cls(made, ranks, np.argsort(codes)) if count == rows.num_rows else None

    @property
    def first(self) -> tuple[str, Bounds | None]:
        """The name in files of the first column of the key, and its bounds."""
        return self.columns[0].name, self.columns[0].bounds

    def matches(self, path: str, dead: Positions) -> KeyMatches | None:
        """The rows of a file with these keys that are not dead; None if only Spark can read the file."""
        with pq.ParquetFile(path) as file:
            found = names_in(file, [key.column for key in self.columns])
            names = None if found is None else [name for name in found if name is not None]
            if names is None or len(names) < len(self.columns):
                return None
            matches = list(self._groups(file, names, dead))
        if not matches:
            return NO_MATCHES
        return KeyMatches(*(np.concatenate(parts) for parts in zip(*matches, strict=True)))

    def _groups(self, file: pq.ParquetFile, names: list[str], dead: Positions) -> Iterator[KeyMatches]:
        begin, at = 0, column_numbers(file)
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            if all(
                _may_have(group.column(at[name]).statistics, key.bounds)
                for name, key in zip(names, self.columns, strict=True)
            ):
                codes = self._codes(file.read_row_group(number, names).select(names))
                there = np.flatnonzero(codes != _NOWHERE)
                near = dead[slice(*np.searchsorted(dead, [begin, begin + group.num_rows]))]
                alive = np.isin(begin + there, near, assume_unique=True, invert=True)
                yield KeyMatches(begin + there[alive], self.rows[codes[there[alive]]])
            begin += group.num_rows

    def _codes(self, rows: pa.Table) -> Codes:
        """The codes of rows that have the columns of the key in its order."""
        codes = NONE
        for number, key in enumerate(self.columns):
            numbers = key.numbers(rows.column(number).combine_chunks().cast(key.column.field.type))
            if number:
                ranks, pairs = self.ranks[number - 1], key.paired(codes, numbers)
                at = np.minimum(np.searchsorted(ranks, pairs), len(ranks) - 1)
                numbers = np.where(ranks[at] == pairs, at, _NOWHERE)
            codes = numbers
        return codes


def names_in(file: pq.ParquetFile, columns: Sequence[FileColumn]) -> list[str | None] | None:
    """What a file calls columns of a table, None for one that it lacks; None if only Spark can read one.

    Columns are found by their numbers. Their names in files may differ: Iceberg's writers change those that
    Avro does not allow, as `full text` to `full_x20text`, and a file keeps the old name of a renamed column.
    """
    schema = file.schema_arrow
    by_name = {there.name: there for there in schema}
    by_number = {number: there for there in schema if (number := _number(there)) is not None}
    names: list[str | None] = []
    for column in columns:
        number = _number(column.field)
        found = by_number.get(number) if number is not None and by_number else by_name.get(column.field.name)
        if found is None:
            if number is not None and not by_number:
                return None  # The table may know a column of another name in files without numbers.
            names.append(None)
        elif widens(found.type, column.field.type):
            names.append(found.name)
        else:
            return None
    return names


def _number(column: pa.Field) -> bytes | None:
    """The number by which a format knows a column."""
    found: bytes | None = (column.metadata or {}).get(FIELD_ID)
    return found


def column_numbers(file: pq.ParquetFile) -> dict[str, int]:
    """The numbers of columns by their paths."""
    schema = file.metadata.schema
    return {schema.column(number).path: number for number in range(file.metadata.num_columns)}


def _comparable(kind: pa.DataType) -> bool:
    return any(
        check(kind)
        for check in (
            pa.types.is_signed_integer,
            pa.types.is_string,
            pa.types.is_binary,
            pa.types.is_boolean,
            pa.types.is_date32,
            pa.types.is_decimal128,
        )
    )


def _bounds(values: pa.Array) -> Bounds | None:
    """Those of integers and texts without nulls."""
    kind = values.type
    if values.null_count or not len(values) or not (pa.types.is_integer(kind) or pa.types.is_string(kind)):
        return None
    found = pc.min_max(values).as_py()
    return Bounds(found["min"], found["max"])


def _may_have(statistics: pq.Statistics | None, bounds: Bounds | None) -> bool:
    """Whether a row group may have a key, as far as its statistics tell."""
    if bounds is None or statistics is None or not statistics.has_min_max:
        return True
    low, high = statistics.min, statistics.max
    return type(low) is not type(bounds.low) or bounds.meets(low, high)


def local_path(place: str) -> str | None:
    """The path of a file on a local disk, of its URI or path; None if it is elsewhere."""
    parts = urlsplit(place)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"}:
        return unquote(parts.path)
    return place if place.startswith("/") else None
