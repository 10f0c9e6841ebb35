"""Digests of rows as a table of PostgreSQL shows them, computed by its server.

A value has many texts: a time with or without zeros, a number in this or that form, whatever a user's own
column makes of it. Only the target knows. So what windows have read is copied into a temporary table with the
columns of the target's, and both are digested by the same expression:

    key     the first 16 bytes of the SHA-256 of ROW(key columns)::text
    row     the same of ROW(all columns that the events have)::text

Nothing of a row leaves the target but its digests. A batch at a time is in the temporary table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from psycopg import sql

from adapters.jdbc.column_types import column_type
from adapters.jdbc.statements import column_list, copy_texts, identifier, size_of, types_of
from adapters.jdbc.table_rows import column_texts, lines
from engine.verify.compared_digests import DIGEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from psycopg import Connection

    from adapters.jdbc.connection import Target
    from adapters.lake.row_columns import Columns
    from adapters.lake.table_name import TableName
    from engine.events.values.text import Text

_ROWS: Final = 20_000
"""How many rows are digested at once."""
_RANGE_BYTES: Final = 16 << 20
"""How much of the table one statement reads."""
_NUMBER: Final = "tidemark: number"
_WIDTH: Final = DIGEST.byte_width
_ESCAPES: Final = {ord("\\"): "\\\\", ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
_PLACE: Final = 6
"""Bytes of a place in the table: its block in 4, its item in 2."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What is compared of a table: the columns that its events have, with the target's types.

    Columns that the target lacks have the types that the sink would give them.
    """

    name: TableName
    key: tuple[str, ...]
    types: Mapping[str, str]
    present: frozenset[str]

    @property
    def names(self) -> list[str]:
        """All columns that are compared."""
        return list(self.types)

    def is_of(self, found: Mapping[str, str]) -> bool:
        """Whether digests by this shape hold for a table with columns of these types."""
        known = {name: kind for name, kind in found.items() if name in self.types}
        return all(self.types[name] == kind for name, kind in known.items()) and known.keys() >= self.present


def shape_of(connection: Connection, name: TableName, columns: Columns) -> Shape:
    """The shape of a table, which may be missing."""
    found = types_of(connection, name)
    types = {
        column: found.get(column) or column_type(schema, columns.connector)
        for column, schema in columns.all.items()
    }
    key = tuple(column for column, _schema in columns.key)
    return Shape(name, key, types, frozenset(types) & frozenset(found))


class StagedDigests:
    """Digests rows and keys by a temporary table of a session. `number` distinguishes it from others'."""

    def __init__(self, connection: Connection, shape: Shape, number: int) -> None:
        self._connection, self._shape = connection, shape
        self._table = sql.Identifier(f"tidemark_compared_{number}")
        defined = [
            sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in shape.types.items()
        ]
        defined.append(sql.SQL("{} int").format(sql.Identifier(_NUMBER)))
        connection.execute(
            sql.SQL("CREATE TEMPORARY TABLE {} ({}) ON COMMIT DELETE ROWS").format(
                self._table, sql.SQL(", ").join(defined)
            )
        )

    def rows(self, batch: pa.RecordBatch, columns: Columns) -> tuple[pa.Array, pa.Array]:
        """The digests of the keys and rows of typed events."""
        names = self._shape.names
        expression = sql.SQL("{} || {}").format(_digest(self._shape.key), _digest(names))
        found = b"".join(
            self._digested(names, column_texts(piece, columns, names), expression) for piece in _pieces(batch)
        )
        pairs = np.frombuffer(found, np.uint8).reshape(-1, 2 * _WIDTH)
        return array_of(pairs[:, :_WIDTH]), array_of(pairs[:, _WIDTH:])

    def keys(self, keys: Text) -> pa.Array:
        """The digests of keys, which are fields of COPY."""
        expression = _digest(self._shape.key)
        found = b"".join(
            self._digested(self._shape.key, [keys.slice(at, _ROWS)], expression)
            for at in range(0, len(keys), _ROWS)
        )
        return array_of(np.frombuffer(found, np.uint8).reshape(-1, _WIDTH))

    def _digested(self, names: Sequence[str], fields: Sequence[Text], expression: sql.Composed) -> bytes:
        count = len(fields[0])
        numbers = pa.array(np.arange(count)).cast(pa.large_string())
        command = sql.SQL("COPY {} ({}) FROM STDIN").format(self._table, column_list([*names, _NUMBER]))
        asked = sql.SQL("SELECT string_agg({}, ''::bytea ORDER BY {}) FROM {}").format(
            expression, sql.Identifier(_NUMBER), self._table
        )
        with self._connection.transaction(), self._connection.cursor(binary=True) as cursor:
            copy_texts(self._connection, command, [lines([*fields, numbers])])
            row = cursor.execute(asked).fetchone()
        return bytes(row[0]) if row and row[0] else b""


@dataclass(frozen=True, slots=True)
class TargetScan:
    """Rows of the target: the digests of their keys and rows, and their places."""

    keys: pa.Array
    rows: pa.Array
    blocks: pa.Array
    items: pa.Array


def scanned(connection: Connection, shape: Shape) -> Iterator[TargetScan]:
    """The rows of a table by the connection's snapshot, range by range. None if the table is missing."""
    if not shape.present:
        return
    table = identifier(shape.name)
    key = _digest(shape.key)
    shown = [sql.Identifier(name) if name in shape.present else sql.SQL("NULL") for name in shape.names]
    row = sql.SQL("substr(sha256(textsend(ROW({})::text)), 1, 16)").format(sql.SQL(", ").join(shown))
    asked = sql.SQL("SELECT string_agg({} || {} || tidsend(ctid), ''::bytea) FROM {} WHERE ctid >= {} AND {}")
    for begin, end in _ranges(connection, shape.name):
        until = sql.SQL("true") if end is None else sql.SQL("ctid < {}").format(_tid(end))
        with connection.cursor(binary=True) as cursor:
            found = cursor.execute(asked.format(key, row, table, _tid(begin), until)).fetchone()
        if found and found[0]:
            yield _parsed(bytes(found[0]))


def _parsed(found: bytes) -> TargetScan:
    signs = np.frombuffer(found, np.uint8).reshape(-1, 2 * _WIDTH + _PLACE)
    places = np.ascontiguousarray(signs[:, 2 * _WIDTH :])
    blocks = places[:, :4].copy().view(">u4").reshape(-1).astype(np.int64)
    items = places[:, 4:].copy().view(">u2").reshape(-1).astype(np.int64)
    keys, rows = signs[:, :_WIDTH], signs[:, _WIDTH : 2 * _WIDTH]
    return TargetScan(array_of(keys), array_of(rows), pa.array(blocks), pa.array(items))


def _ranges(connection: Connection, name: TableName) -> Iterator[tuple[int, int | None]]:
    """Ranges of blocks, `begin` inclusive; the last one has no end."""
    size, block = size_of(connection, name)
    step = max(1, _RANGE_BYTES // block)
    begins = list(range(0, max(1, -(-size // block)), step))
    yield from zip(begins, [*begins[1:], None], strict=True)


def keys_at(
    connection: Connection, shape: Shape, places: Sequence[tuple[int, int]]
) -> dict[bytes, tuple[str | None, ...]]:
    """The keys of rows at these places, by their digests, as the target writes them."""
    found: dict[bytes, tuple[str | None, ...]] = {}
    shown = [sql.SQL("{}::text").format(sql.Identifier(name)) for name in shape.key]
    asked = sql.SQL("SELECT {}, {} FROM {} WHERE ctid = ANY(%s::tid[])").format(
        _digest(shape.key), sql.SQL(", ").join(shown), identifier(shape.name)
    )
    for at in range(0, len(places), _ROWS):
        wanted = [f"({block},{item})" for block, item in places[at : at + _ROWS]]
        for digest, *key in connection.execute(asked, [wanted]).fetchall():
            found[bytes(digest)] = tuple(key)
    return found


def array_of(digests: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> pa.Array:
    """Digests, a row of bytes each."""
    content = pa.py_buffer(np.ascontiguousarray(digests).tobytes())
    return pa.FixedSizeBinaryArray.from_buffers(DIGEST, len(digests), [None, content])


def field_of(key: Sequence[str | None]) -> str:
    """A key as a field of COPY for each of its columns."""
    return "\t".join("\\N" if part is None else part.translate(_ESCAPES) for part in key)


def _digest(names: Sequence[str]) -> sql.Composed:
    return sql.SQL("substr(sha256(textsend(ROW({})::text)), 1, 16)").format(column_list(names))


def _tid(block: int) -> sql.Composed:
    return sql.SQL("{}::tid").format(sql.Literal(f"({block},0)"))


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for at in range(0, batch.num_rows, _ROWS):
        yield batch.slice(at, _ROWS)


class Snapshot:
    """A table as of one snapshot of the target. Used by one thread at a time; `cancel` by any."""

    def __init__(self, target: Target, shape: Shape) -> None:
        self._target, self._shape = target, shape
        self.cancel, self.close = target.cancel, target.close

    def size(self) -> int:
        """About how many bytes the rows take. Raises SinkError, as all do."""
        with self._target.connection() as connection:
            return size_of(connection, self._shape.name)[0]

    def rows(self) -> Iterator[TargetScan]:
        """The rows, range by range."""
        with self._target.connection() as connection:
            yield from scanned(connection, self._shape)

    def keys_at(self, places: Sequence[tuple[int, int]]) -> dict[bytes, tuple[str | None, ...]]:
        """The keys of rows at these places, by their digests, as the target writes them."""
        with self._target.connection() as connection:
            return keys_at(connection, self._shape, places)


def digested_keys(
    target: Target, shape: Shape, batches: Iterable[pa.RecordBatch]
) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
    """Batches of touched keys with their digests, without keys that are null. Raises SinkError."""
    try:
        with target.connection() as connection:
            digests = StagedDigests(connection, shape, 0)
            for batch in batches:
                known = batch.filter(batch.column("key").is_valid())
                if known.num_rows:
                    yield digests.keys(known.column("key")), known
    finally:
        target.close()
