"""Questions about the signal table, and the rows that windows write to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from psycopg import sql

from adapters.postgres.server.failures import source_errors

if TYPE_CHECKING:
    import psycopg

    from engine.model import CollectionId

_FIND: LiteralString = """
SELECT (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
       has_table_privilege(c.oid, 'INSERT'),
       has_table_privilege(c.oid, 'DELETE'),
       c.relreplident IN ('f', 'i')
       OR c.relreplident = 'd' AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')
"""


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

    def insert(self, table: CollectionId, row_id: str, kind: str) -> None:
        """Insert a row without data."""
        statement = sql.SQL("INSERT INTO {} VALUES (%s, %s, NULL)").format(sql.Identifier(*table.parts))
        with source_errors("writing a window row"):
            self._connection.execute(statement, [row_id, kind])

    def delete(self, table: CollectionId, row_id: str) -> None:
        """Delete a row."""
        statement = sql.SQL("DELETE FROM {} WHERE id = %s").format(sql.Identifier(*table.parts))
        with source_errors("deleting a window row"):
            self._connection.execute(statement, [row_id])
