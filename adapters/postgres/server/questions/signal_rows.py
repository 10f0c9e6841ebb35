"""Questions about the signal table, and the rows that windows write to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from psycopg import sql
from psycopg.errors import (
    InsufficientPrivilege,
    LockNotAvailable,
    StringDataRightTruncation,
    UndefinedTable,
)

from adapters.postgres.server.failures import source_errors

if TYPE_CHECKING:
    import psycopg

    from engine.model import CollectionId
    from signals.window_rows import WindowRow

_FIND: LiteralString = """
SELECT (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
       has_table_privilege(c.oid, 'INSERT'),
       has_table_privilege(c.oid, 'DELETE'),
       c.relreplident IN ('f', 'i')
       OR c.relreplident = 'd' AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')
"""
_WITHIN: LiteralString = "SET LOCAL lock_timeout = '100ms'"
# Whatever its columns are called.
_STOPS: LiteralString = (
    "SELECT concat_ws(' ', t.ctid, t.xmin) FROM {} t"
    " WHERE t::text ILIKE '%stop-snapshot%' AND t::text ILIKE '%blocking%'"
)


@dataclass(frozen=True, slots=True)
class FoundSignalTable:
    """What the catalog says: the columns, and whether the role and the table allow what is needed."""

    columns: int
    insert: bool
    delete: bool
    identified: bool


class SignalTables:
    """The signal table, over one connection."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def find(self, table: CollectionId) -> FoundSignalTable | None:
        """The table, if there is one."""
        with source_errors("signal table"):
            row = self._connection.execute(_FIND, [*table.parts[-2:]]).fetchone()
        return None if row is None else FoundSignalTable(*row)

    def stops(self, table: CollectionId) -> frozenset[str] | None:
        """What tells rows apart that may ask to stop a blocking snapshot; an updated row counts as another.

        None if they can't be read now: the role may not, or the table is locked or gone.
        """
        with source_errors("looking for signals"):
            try:
                with self._connection.transaction():
                    self._connection.execute(_WITHIN)
                    name = sql.Identifier(*table.parts[-2:])
                    rows = self._connection.execute(sql.SQL(_STOPS).format(name)).fetchall()
            except (LockNotAvailable, InsufficientPrivilege, UndefinedTable):
                return None
        return frozenset(shown for (shown,) in rows)

    def insert(self, table: CollectionId, row_id: str, kind: str, data: str | None = None) -> None:
        """Insert a row."""
        with source_errors("writing to the signal table"):
            self._insert(table, row_id, kind, data)

    def insert_id(self, table: CollectionId, row_id: str) -> None:
        """Insert a row that has nothing but an `id`."""
        statement = sql.SQL("INSERT INTO {} (id) VALUES (%s)").format(sql.Identifier(*table.parts[-2:]))
        with source_errors("writing a marker"):
            self._connection.execute(statement, [row_id])

    def insert_alone(self, table: CollectionId, row_id: str, kind: str) -> int:
        """Insert a row in a transaction of its own, and return the transaction's 32-bit id."""
        statement = sql.SQL(
            "INSERT INTO {} VALUES (%s, %s, NULL) RETURNING pg_current_xact_id()::xid::text::int8"
        ).format(sql.Identifier(*table.parts[-2:]))
        with source_errors("writing to the signal table"):
            row = self._connection.execute(statement, [row_id, kind]).fetchone()
        return int(row[0]) if row else 0

    def has(self, table: CollectionId, row_id: str) -> bool:
        """Whether the table has this row. Without the table it has none."""
        statement = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE id = %s)").format(
            sql.Identifier(*table.parts[-2:])
        )
        with source_errors("looking into the signal table"):
            try:
                row = self._connection.execute(statement, [row_id]).fetchone()
            except UndefinedTable:
                return False
        return bool(row and row[0])

    def mark(self, table: CollectionId, row: WindowRow) -> None:
        """Insert a row of a window, without its data if the column is too short for it."""
        with source_errors("writing to the signal table"):
            try:
                self._insert(table, *row)
            except StringDataRightTruncation:
                self._insert(table, row.id, row.type, None)

    def _insert(self, table: CollectionId, *row: str | None) -> None:
        statement = sql.SQL("INSERT INTO {} VALUES (%s, %s, %s)").format(sql.Identifier(*table.parts))
        self._connection.execute(statement, row)

    def delete(self, table: CollectionId, row_id: str) -> None:
        """Delete a row."""
        statement = sql.SQL("DELETE FROM {} WHERE id = %s").format(sql.Identifier(*table.parts))
        with source_errors("deleting a window row"):
            self._connection.execute(statement, [row_id])
