"""Questions about the ids of a database and its tables, which tell a copy of a server from another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString

from adapters.postgres.server.failures import source_errors

if TYPE_CHECKING:
    import psycopg

_DATABASE: LiteralString = "SELECT oid::int8 FROM pg_database WHERE datname = current_database()"
_TABLES: LiteralString = (
    "SELECT DISTINCT c.oid::regclass::text, c.oid::int8"
    " FROM pg_publication_tables p JOIN pg_namespace n ON n.nspname = p.schemaname"
    " JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename"
)


class CatalogIds:
    """The ids that the catalog has given, over one connection."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def database(self) -> int:
        """The id of the connection's database."""
        with source_errors("asking for the database's id"):
            row = self._connection.execute(_DATABASE).fetchone()
        return int(row[0]) if row else 0

    def tables(self) -> dict[str, int]:
        """The ids of all published tables, by their names."""
        with source_errors("asking for the tables' ids"):
            return dict(self._connection.execute(_TABLES).fetchall())
