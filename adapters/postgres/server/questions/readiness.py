"""Questions about what a server must have before a job can run on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from adapters.postgres.server.failures import source_errors
from engine.model import CollectionId

if TYPE_CHECKING:
    import psycopg

_SERVER: LiteralString = """
SELECT current_setting('wal_level'),
       current_setting('server_version'),
       r.rolreplication OR r.rolsuper,
       current_user::text,
       current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots)::int
FROM pg_roles r WHERE r.rolname = current_user
"""
_TABLES: LiteralString = """
SELECT n.nspname, c.relname, has_table_privilege(c.oid, 'SELECT'),
       c.relreplident IN ('f', 'i')
       OR c.relreplident = 'd' AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
  AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
ORDER BY 1, 2
"""
_PUBLISHED: LiteralString = (
    "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s ORDER BY 1, 2"
)
_PUBLICATION: LiteralString = "SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = %s)"


@dataclass(frozen=True, slots=True)
class ServerSetup:
    """The server and the role: `free_slots` are those that can still be made."""

    wal_level: str
    version: str
    replicates: bool
    role: str
    free_slots: int


@dataclass(frozen=True, slots=True)
class TableSetup:
    """A permanent table: whether the role may read it, and whether the log has keys of updated rows."""

    id: CollectionId
    readable: bool
    identified: bool


class Readiness:
    """What is asked before a job is set up, over one connection."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def server(self) -> ServerSetup:
        """The server and the connection's role."""
        with source_errors("looking at the server"):
            row = self._connection.execute(_SERVER).fetchone()
        return ServerSetup(*row) if row else ServerSetup("", "", False, "", 0)  # noqa: FBT003  as in the row

    def tables(self) -> list[TableSetup]:
        """All permanent tables, in order."""
        with source_errors("looking at the tables"):
            rows = self._connection.execute(_TABLES).fetchall()
        return [TableSetup(CollectionId((schema, name)), *rest) for schema, name, *rest in rows]

    def published(self, publication: str) -> set[CollectionId] | None:
        """The tables of a publication; None if there is none."""
        with source_errors("looking at the publication"):
            found = self._connection.execute(_PUBLICATION, [publication]).fetchone()
            if not found or not found[0]:
                return None
            return {
                CollectionId(row) for row in self._connection.execute(_PUBLISHED, [publication]).fetchall()
            }
