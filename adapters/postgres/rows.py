"""Rows read by a query: one text per row, put together in SQL and taken apart here in bulk.

Values are written by their types' output functions, as the log's are (`concat` calls them). Two forms:

- `RowMode.FAST`: flags, then each column after a separator (U+001F). A flag says whether a column
  whose text may be empty is NULL; elsewhere empty text means NULL. A value that holds the separator
  can only add one, so counting finds every such row: `SeparatorInData` asks to read it again
- `RowMode.EXACT`: lengths in bytes (-1: NULL) before the values; right for any data, slower.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adapters.postgres.sql import IS_NULL, quote_ident
from adapters.postgres.types import type_of
from engine.errors import InvariantError, SourceError
from engine.events.text import Bytes, Ints, Text, slices, text_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.postgres.table import PgType, Relation, Table

SEPARATOR = "\x1f"
_ARGUMENTS = 90
"""Below the 100 arguments that a function can take."""
_NEVER_EMPTY = frozenset(
    [
        "bool",
        "bytea",
        "int2",
        "int4",
        "int8",
        "oid",
        "float4",
        "float8",
        "numeric",
        "money",
        "date",
        "time",
        "timetz",
        "timestamp",
        "timestamptz",
        "interval",
        "uuid",
        "json",
        "jsonb",
        "inet",
        "cidr",
        "macaddr",
        "macaddr8",
        "bit",
        "point",
        "line",
        "lseg",
        "box",
        "path",
        "polygon",
        "circle",
        "pg_lsn",
        "xid",
        "xid8",
        "int4range",
        "int8range",
        "numrange",
        "tsrange",
        "tstzrange",
        "daterange",
    ],
)


class RowMode(StrEnum):
    """How a row's values are put into one text."""

    FAST = "fast"
    EXACT = "exact"


class SeparatorInData(SourceError):
    """A value holds the separator; the rows must be read again with `RowMode.EXACT`."""


@dataclass(frozen=True, slots=True)
class RowShape:
    """The columns of a row text in order. `flagged` are indexes of those with a flag for NULL.

    `nullable` says which columns may be NULL; a column that is neither flagged nor nullable never is.
    """

    columns: tuple[str, ...]
    nullable: tuple[bool, ...]
    flagged: tuple[int, ...]


def row_shape(relation: Relation, table: Table, types: Mapping[int, PgType]) -> RowShape:
    """The shape of texts that hold the relation's columns, as the catalog describes them."""
    found = [table.column(column.name) for column in relation.columns]
    nullable = tuple(column is None or column.nullable for column in found)
    flagged = tuple(
        index
        for index, column in enumerate(relation.columns)
        if nullable[index] and may_be_empty(type_of(column.type, types), types)
    )
    return RowShape(tuple(column.name for column in relation.columns), nullable, flagged)


def may_be_empty(kind: PgType | None, types: Mapping[int, PgType]) -> bool:
    """Whether a value's text can be empty though the value is not NULL; yes where that isn't known."""
    if kind is None:
        return True
    if kind.kind == "d":
        return may_be_empty(type_of(kind.base, types), types)
    if kind.kind == "e":
        return "" in kind.labels
    if kind.kind in {"c", "r", "m"} or kind.category == "A":
        return False
    return kind.schema != "pg_catalog" or kind.name not in _NEVER_EMPTY


def row_expression(shape: RowShape, mode: RowMode, alias: str = "") -> str:
    """The SQL expression of one row's text; `alias` qualifies the columns."""
    prefix = f"{quote_ident(alias)}." if alias else ""
    names = [prefix + quote_ident(name) for name in shape.columns]
    if mode is RowMode.FAST:
        flags = [f"{names[index]} {IS_NULL}" for index in shape.flagged]
        return _concat(flags + [part for name in names for part in ("E'\\x1f'", name)])
    lengths = [
        part
        for name in names
        for part in (
            f"CASE WHEN {name} {IS_NULL} THEN -1 ELSE octet_length(convert_to(concat({name}), 'UTF8')) END",
            "','",
        )
    ]
    return _concat([*lengths, "';'", *names])


def _concat(parts: list[str]) -> str:
    while len(parts) > _ARGUMENTS:
        parts = [_call(parts[at : at + _ARGUMENTS]) for at in range(0, len(parts), _ARGUMENTS)]
    return _call(parts)


def _call(parts: list[str]) -> str:
    return f"concat({', '.join(parts)})" if parts else "''"


def split_rows(texts: pa.Array, shape: RowShape, mode: RowMode) -> list[Text]:
    """The columns of row texts, null for NULL.

    `texts` are strings or large strings without null. Raises SeparatorInData in FAST mode.
    """
    if texts.null_count:
        raise InvariantError("a row's text is null")
    if not shape.columns or len(texts) == 0:
        return [pa.nulls(0, pa.large_string()) for _ in shape.columns]
    offsets, data = text_parts(texts)
    return (
        _split_fast(offsets, data, shape)
        if mode is RowMode.FAST
        else _split_exact(texts, offsets, data, shape)
    )


def _split_fast(offsets: Ints, data: Bytes, shape: RowShape) -> list[Text]:
    rows, width = len(offsets) - 1, len(shape.columns)
    marks = np.flatnonzero(data[offsets[0] : offsets[-1]] == ord(SEPARATOR)) + offsets[0]
    if len(marks) != rows * width:
        raise SeparatorInData("a value holds the character U+001F", hint="read the rows in exact mode")
    places = marks.reshape(rows, width)
    if (places[:, 0] != offsets[:-1] + len(shape.flagged)).any() or (places[:, -1] >= offsets[1:]).any():
        raise SeparatorInData("a value holds the character U+001F", hint="read the rows in exact mode")
    edges = np.empty((width + 1, rows), np.int64)
    edges[:width] = places.T
    edges[width] = offsets[1:]
    columns = []
    for index in range(width):
        begins, ends = edges[index] + 1, edges[index + 1]
        columns.append(slices(data, begins, ends, _given(offsets, data, shape, index, begins < ends)))
    return columns


def _given(offsets: Ints, data: Bytes, shape: RowShape, index: int, filled: np.ndarray) -> np.ndarray:
    if index in shape.flagged:
        flags: np.ndarray = data[offsets[:-1] + shape.flagged.index(index)] == ord("f")
        return flags
    return filled if shape.nullable[index] else np.ones(len(filled), bool)


def _split_exact(texts: pa.Array, offsets: Ints, data: Bytes, shape: RowShape) -> list[Text]:
    rows, width = len(offsets) - 1, len(shape.columns)
    heads = pc.list_element(pc.split_pattern(texts, ",;", max_splits=1), 0)
    lengths = (
        pc.cast(pc.list_flatten(pc.split_pattern(heads, ",")), pa.int64()).to_numpy().reshape(rows, width)
    )
    begins = offsets[:-1] + pc.binary_length(heads).to_numpy() + 2
    columns = []
    for index in range(width):
        given = lengths[:, index] >= 0
        ends = begins + np.where(given, lengths[:, index], 0)
        columns.append(slices(data, begins, ends, given))
        begins = ends
    return columns
