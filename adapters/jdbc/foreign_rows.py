"""Reads tables that somebody else keeps in PostgreSQL, as rows of their source.

Each column is cast to the type that it has in the source, so the target's server writes a value as the
source's would. Then the rows take the same way as those of the source: the codec of their events makes keys
and rows of them. A table may have other types as long as they can be cast, and other columns beside.

    target    SELECT "id"::bigint, "price"::numeric(10,2), … ──► row texts ──► codec ──► digests

A cast may lose something: 1.004 becomes 1.00. So where types differ it is asked whether the value is still
the same, and a row that has lost something equals nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
from psycopg import sql

from adapters.jdbc.statements import identifier, size_of, types_of
from engine.errors import InvariantError, SourceError
from engine.snapshot.merge_key import KEY_TYPE
from engine.verify.settled import HeldRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg import Connection

    from adapters.jdbc.connection import Target
    from adapters.lake.table_name import TableName
    from adapters.verify.tables.row_reads import RowReads
    from engine.verify.settled import HeldPlace

_RANGE_BYTES: Final = 8 << 20
"""How much of a table, with its large values, one statement reads."""
_FIRST_USER_OID: Final = 16384
"""Types with a lower oid are the same on all servers."""
_RANGES: Final = 1 << 32
"""More than a range has rows."""
_FAITHFUL: Final = sql.Identifier("tidemark: faithful")
_TEXTS: Final = ("text", "character", "json")
"""How the names of types begin whose values are parsed by a cast."""


class ForeignRows:
    """The rows of a table as of one snapshot of its server. Used by one thread; `cancel` by any."""

    def __init__(
        self, target: Target, name: TableName, reads: RowReads, markers: TableName | None = None
    ) -> None:
        self._target, self._name, self._reads, self._markers = target, name, reads, markers
        self._ranges: list[tuple[int, int | None]] = []
        self._columns: sql.Composable | None = None
        self._faithful: sql.Composable = sql.SQL("true")
        # The source may not know a text as a value of its own type: a label, or what a domain forbids.
        self._known_keys = all(reads.types[name][0] < _FIRST_USER_OID for name in reads.compared.keys)
        self.cancel, self.close = target.cancel, target.close

    def begin(self) -> int:
        """Take the snapshot; returns about how many bytes the rows have.

        Raises SourceError if the table can't be compared, SinkError if the server can't be asked.
        """
        with self._target.connection() as connection:
            for setting, value in self._reads.settings.items():
                connection.execute("SELECT set_config(%s, %s, false)", [setting, value])
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._choose(connection)
            size, block = size_of(connection, self._name)
            step = max(1, _RANGE_BYTES // block // self._largeness(connection, size))
            begins = list(range(0, max(1, -(-size // block)), step))
            self._ranges = list(zip(begins, [*begins[1:], None], strict=True))
        return size

    def has(self, marker: str) -> bool:
        """Whether the table of markers has this one now. Call it before `begin`. Raises SinkError."""
        if self._markers is None:
            raise InvariantError("there is no table of markers")
        name = identifier(self._markers)
        asked = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE id::text = %s)").format(name)
        with self._target.connection() as connection:
            row = connection.execute(asked, [marker]).fetchone()
        return bool(row and row[0])

    def _choose(self, connection: Connection) -> None:
        """Choose the columns of the source, by the target's types."""
        known = types_of(connection, self._name)
        if not known:
            raise SourceError("the target has no such table", where=str(self._name))
        self._reads.compared.check(known, str(self._name))
        shown, faithful = [], []
        for name, (kind, modifier) in self._reads.types.items():
            column = sql.Identifier(name)
            if name not in known:
                shown.append(sql.SQL("NULL AS {}").format(column))
                continue
            cast = _Cast(known[name], *_type_names(connection, kind, modifier))
            shown.append(sql.SQL("{} AS {}").format(cast.shown(column), column))
            if not cast.same:
                faithful.append(cast.faithful(column))
        self._columns = sql.SQL(", ").join(shown)
        if faithful:
            self._faithful = sql.SQL(" AND ").join(faithful)

    def _largeness(self, connection: Connection, size: int) -> int:
        """How many times as large the rows are with the values that are stored apart."""
        row = connection.execute(
            "SELECT pg_table_size(to_regclass(%s))", [identifier(self._name).as_string(connection)]
        ).fetchone()
        return max(1, -(-(row[0] if row else 0) // max(size, 1)))

    def rows(self) -> Iterator[HeldRows]:
        """The rows, range by range. Raises SinkError, also for a value that can't be cast."""
        for number in range(len(self._ranges)):
            texts, faithful = self._texts(number)
            if len(texts):
                found = self._reads.compared.digested(texts)
                places = pa.array(number * _RANGES + np.arange(len(texts)))
                merge_keys = found.merge_keys if self._known_keys else pa.nulls(len(texts), KEY_TYPE)
                yield HeldRows(found.keys, found.rows, places, faithful, merge_keys)

    def keys(self, places: Sequence[HeldPlace]) -> tuple[str, ...]:
        """The keys of the rows at these places, as JSON."""
        found = []
        for place in places:
            number, row = divmod(place.number, _RANGES)
            texts, _faithful = self._texts(number)
            found.append(self._reads.compared.digested(texts.slice(row, 1)).shown[0].as_py())
        return tuple(found)

    def _texts(self, number: int) -> tuple[pa.Array, pa.Array]:
        """The texts of a range's rows, in an order that stays, and whether each has lost nothing."""
        if self._columns is None:
            raise SourceError("the table's snapshot was not taken", where=str(self._name))
        begin, end = self._ranges[number]
        until = sql.SQL("true") if end is None else sql.SQL("ctid < {}").format(_tid(end))
        asked = sql.SQL(
            "SELECT string_agg(int4send(octet_length(r)), ''::bytea), string_agg(r, ''::bytea),"
            " string_agg(boolsend(f), ''::bytea) FROM (SELECT convert_to({}, 'UTF8') AS r, {} AS f"
            " FROM (SELECT {}, {} AS {} FROM {} WHERE ctid >= {} AND {}) AS t) AS q"
        ).format(
            sql.SQL(self._reads.expression),  # it is the source's own
            _FAITHFUL,
            self._columns,
            self._faithful,
            _FAITHFUL,
            identifier(self._name),
            _tid(begin),
            until,
        )
        with self._target.connection() as connection, connection.cursor(binary=True) as cursor:
            row = cursor.execute(asked).fetchone()
        if row is None or row[0] is None:
            return pa.array([], pa.large_string()), pa.array([], pa.bool_())
        lengths = np.frombuffer(row[0], ">i4").astype(np.int64)
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        texts = pa.LargeStringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(row[1]))
        return texts, pa.array(np.frombuffer(row[2], np.uint8) != 0)


class _Cast(NamedTuple):
    """From the type of a target's column to the source's; `base` is the source's without its modifier."""

    target: str
    source: str
    base: str

    @property
    def same(self) -> bool:
        return self.target == self.source

    def shown(self, column: sql.Identifier) -> sql.Composable:
        """The value as the source has it."""
        return column if self.same else sql.SQL("{}::{}").format(column, _named(self.source))

    def faithful(self, column: sql.Identifier) -> sql.Composed:
        """Whether the cast loses nothing. Another text of the same value is none: it is parsed."""
        if self.target.startswith(_TEXTS):
            return sql.SQL("{0}::{1}::text IS NOT DISTINCT FROM {0}::{2}::text").format(
                column, _named(self.source), _named(self.base)
            )
        return sql.SQL("{0}::{1}::{2}::text IS NOT DISTINCT FROM {0}::text").format(
            column, _named(self.source), _named(self.target)
        )


def _named(kind: str) -> sql.SQL:
    """The name of a type, as the server has given it."""
    return sql.SQL(kind)


def _type_names(connection: Connection, kind: int, modifier: int) -> tuple[str, str]:
    """The names of a source's type on this server, with its modifier and without; text if it has none."""
    if kind >= _FIRST_USER_OID:
        return "text", "text"
    row = connection.execute(
        "SELECT format_type(%s::oid, %s), format_type(%s::oid, -1)", [kind, modifier, kind]
    ).fetchone()
    return ("text", "text") if row is None or "?" in row[0] else (str(row[0]), str(row[1]))


def _tid(block: int) -> sql.Composed:
    return sql.SQL("{}::tid").format(sql.Literal(f"({block},0)"))
