"""Writes the catalog in `sys`: tables, columns and indexes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql

from tests.servers.sqlserver.kinds import TEXTS

if TYPE_CHECKING:
    import psycopg

    from tests.servers.sqlserver.columns import Column, Key

_TABLES = ("objects", "columns", "indexes", "index_columns")

_NEXT_COLUMN = """
SELECT greatest(o.max_column_id_used, coalesce(max(c.column_id), 0)) + 1 FROM sys.objects AS o
LEFT JOIN sys.columns AS c USING (object_id) WHERE o.object_id = %s GROUP BY o.object_id
"""
"""The number of a new column: no number is given twice, also after its column was dropped."""


@dataclass(frozen=True, slots=True)
class CatalogWriter:
    """Writes the catalog through one connection."""

    connection: psycopg.Connection[Any]
    collation: str

    def run(self, query: Any, *values: object) -> None:
        """Run a statement without a result."""
        self.connection.execute(query, values or None)

    def row(self, query: str, *values: object) -> tuple[Any, ...]:
        """The single row of a statement."""
        found: tuple[Any, ...] | None = self.connection.execute(query, values).fetchone()
        if found is None:
            raise LookupError(query)
        return found

    def object_id(self, schema: str, name: str) -> int:
        """A table's object id: PostgreSQL's own."""
        return int(self.row("SELECT %s::regclass::oid::int", sql.Identifier(schema, name).as_string())[0])

    def table(self, schema: str, name: str, kind: str = "U") -> int:
        """Register a new table or view."""
        number = self.object_id(schema, name)
        self.run(
            "INSERT INTO sys.objects (object_id, schema_id, name, type)"
            " SELECT %s, schema_id, %s, %s FROM sys.schemas WHERE name = %s",
            *(number, name, kind, schema),
        )
        return number

    def column(self, number: int, column: Column, place: int = 0) -> None:
        """Register a new column, at the end if no place is given."""
        place = place or self.row(_NEXT_COLUMN, number)[0]
        self.run(
            "UPDATE sys.objects SET max_column_id_used = %s WHERE object_id = %s AND max_column_id_used < %s",
            *(place, number, place),
        )
        default = 0
        if column.default is not None:
            (default,) = self.row(
                "INSERT INTO sys.default_constraints (parent_object_id, parent_column_id, name, definition)"
                " VALUES (%s, %s, %s, %s) RETURNING object_id",
                *(number, place, f"DF_{number}_{place}", column.definition),
            )
        collation = column.kind.collation or self.collation if column.kind.name in TEXTS else None
        self.run(
            "INSERT INTO sys.columns VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            *(number, place, column.name, *column.kind.ids, *column.kind.sizes, collation),
            *(int(column.nullable), int(column.identity is not None), int(column.computed is not None)),
            default,
        )

    def altered(self, number: int, column: Column) -> None:
        """Register another type of a column."""
        self.run(
            "UPDATE sys.columns SET system_type_id = %s, user_type_id = %s, max_length = %s, precision = %s,"
            " scale = %s, is_nullable = %s WHERE object_id = %s AND name = %s",
            *(*column.kind.ids, *column.kind.sizes, int(column.nullable), number, column.name),
        )

    def index(self, number: int, key: Key) -> None:
        """Register a new index."""
        (place,) = self.row(
            "SELECT coalesce(max(index_id), 0) + 1 FROM sys.indexes WHERE object_id = %s", number
        )
        self.run(
            "INSERT INTO sys.indexes (object_id, index_id, name, type, is_unique, is_primary_key, has_filter)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)",
            *(number, place, key.name or f"IX_{number}_{place}", 1 if place == 1 else 2),
            *(int(key.unique), int(key.primary), int(bool(key.condition))),
        )
        for order, (column, down) in enumerate(key.columns, 1):
            self.run(
                "INSERT INTO sys.index_columns"
                " (object_id, index_id, column_id, key_ordinal, is_descending_key)"
                " SELECT %s, %s, column_id, %s, %s FROM sys.columns WHERE object_id = %s AND name = %s",
                *(number, place, order, int(down), number, column),
            )

    def forget(self, number: int, column: str = "") -> None:
        """Remove a dropped table or column."""
        if column:
            self.run("DELETE FROM sys.columns WHERE object_id = %s AND name = %s", number, column)
            return
        for table in _TABLES:
            self.run(
                sql.SQL("DELETE FROM {} WHERE object_id = %s").format(sql.Identifier("sys", table)), number
            )
