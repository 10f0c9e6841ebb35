"""Questions about publications, by the rules of PostgreSQL's view `pg_publication_tables`.

The view itself is not used because it opens every table and so waits for locks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

import psycopg
from psycopg import sql

from adapters.postgres.server.failures import message_of, source_errors
from engine.errors import ConfigError
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_IN_PART_SINCE = 150_000
"""The server version since which publications have schemas, lists of columns, and row filters."""
# A table with what publishes it: an entry for the table or an ancestor, or for their schemas. `level` counts
# from the table up; `marks` are the transactions that wrote the entry.
_ENTRIES: LiteralString = """
SELECT c.oid::bigint, n.nspname, c.relname, c.relkind::text, chain.level, p.pubviaroot,
       concat_ws(' ', p.oid, p.xmin, r.oid, r.xmin, {schema_mark}),
       CASE WHEN {no_schema} THEN {columns} END,
       CASE WHEN {no_schema} THEN {row_filter} END
FROM pg_publication p
CROSS JOIN pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
    SELECT c.oid AS relid, 0 AS level
    UNION ALL SELECT up.relid, up.level FROM pg_partition_ancestors(c.oid) WITH ORDINALITY AS up(relid, level)
    WHERE up.relid <> c.oid) chain
JOIN pg_class k ON k.oid = chain.relid
LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = k.oid
{schema_join}
WHERE p.pubname = %(publication)s AND (p.puballtables OR r.oid IS NOT NULL OR NOT {no_schema})
  AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
  AND (%(oids)s::bigint[] IS NULL OR c.oid = ANY (%(oids)s::bigint[]))
ORDER BY n.nspname, c.relname, chain.level
"""
_IN_PART: LiteralString = _ENTRIES.format(
    schema_mark="s.oid, s.xmin",
    no_schema="s.oid IS NULL",
    schema_join=("LEFT JOIN pg_publication_namespace s ON s.pnpubid = p.oid AND s.pnnspid = k.relnamespace"),
    # Without a list: all columns except generated ones; stored ones as well where that is chosen.
    columns=(
        "CASE WHEN r.prattrs IS NOT NULL OR to_jsonb(p) ->> 'pubgencols' = 's' THEN ARRAY("
        "SELECT a.attname FROM pg_attribute a WHERE a.attrelid = k.oid AND a.attnum > 0"
        " AND NOT a.attisdropped AND CASE WHEN r.prattrs IS NULL THEN a.attgenerated IN ('', 's')"
        " ELSE a.attnum = ANY (r.prattrs) END ORDER BY a.attnum)::text[] END"
    ),
    row_filter="pg_get_expr(r.prqual, r.prrelid)",
)
_WHOLE: LiteralString = _ENTRIES.format(
    schema_mark="NULL", no_schema="true", schema_join="", columns="NULL::text[]", row_filter="NULL::text"
)
_LACKING: LiteralString = (
    "SELECT concat_ws(', ', CASE WHEN NOT pubinsert THEN 'insert' END, CASE WHEN NOT pubupdate THEN 'update'"
    " END, CASE WHEN NOT pubdelete THEN 'delete' END, CASE WHEN NOT pubtruncate THEN 'truncate' END)"
    " FROM pg_publication WHERE pubname = %s"
)
_ANCESTORS: LiteralString = (
    "SELECT un.nspname, up.relname, n.nspname, c.relname"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " CROSS JOIN LATERAL pg_partition_ancestors(c.oid) AS a (relid)"
    " JOIN pg_class up ON up.oid = a.relid AND up.oid <> c.oid"
    " JOIN pg_namespace un ON un.oid = up.relnamespace"
    " WHERE c.relispartition AND c.relkind = 'r' ORDER BY 1, 2, 3, 4"
)
_LEAVES: LiteralString = (
    "SELECT n.nspname, c.relname FROM pg_partition_tree(%s) t JOIN pg_class c ON c.oid = t.relid"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE t.isleaf ORDER BY 1, 2"
)
# Rows are logged by the replica identity of their partition, under whatever name it is published.
_NOT_FULL: LiteralString = """
WITH RECURSIVE tree (root, relid) AS (
    SELECT c.oid, c.oid FROM pg_class c WHERE c.oid = ANY (%s::bigint[])
    UNION ALL SELECT tree.root, i.inhrelid FROM tree
    JOIN pg_class c ON c.oid = tree.relid AND c.relkind = 'p' JOIN pg_inherits i ON i.inhparent = c.oid)
SELECT DISTINCT tree.root::bigint FROM tree
JOIN pg_class c ON c.oid = tree.relid AND c.relkind = 'r' AND c.relreplident <> 'f'
"""
_DIGEST: LiteralString = """
SELECT md5(concat_ws(';', p.oid, p.xmin,
    (SELECT string_agg(concat_ws(' ', r.oid, r.xmin), ',' ORDER BY r.oid)
     FROM pg_publication_rel r WHERE r.prpubid = p.oid){namespaces}))
FROM pg_publication p WHERE p.pubname = %s
"""
_DIGEST_WHOLE = _DIGEST.format(namespaces="")
_DIGEST_IN_PART = _DIGEST.format(
    namespaces=", (SELECT string_agg(concat_ws(' ', n.oid, n.xmin), ',' ORDER BY n.oid)"
    " FROM pg_publication_namespace n WHERE n.pnpubid = p.oid)"
)


_TABLES: LiteralString = """
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_type t ON t.oid = c.reltype
LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND c.relispartition
"""
_OF_USERS: LiteralString = " WHERE c.relkind IN ('r', 'p') AND c.oid >= 16384"
# Whoever creates a table writes its system columns and its row type in one command, and its link to a parent
# two commands later. A new name or owner rewrites the row type; SET LOGGED gives the table another file.
_USER_TABLES: LiteralString = (
    "SELECT c.oid::bigint, n.nspname, c.relname, coalesce(i.inhparent, 0)::bigint, t.typowner::bigint,"
    " t.xmin::text::bigint, coalesce(i.xmin::text, '0')::bigint,"
    " (c.relkind = 'p' OR c.relfilenode = c.oid) AND t.xmin = a.xmin AND t.cmin::text = a.cmin::text,"
    " coalesce(i.xmin = a.xmin AND i.cmin::text::bigint - a.cmin::text::bigint BETWEEN 0 AND 2, false),"
    " pg_current_snapshot()::text"
    + _TABLES
    + " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tableoid'"
    + _OF_USERS
)
_USER_TABLES_DIGEST: LiteralString = (
    "SELECT md5(string_agg(concat_ws(' ', c.oid, n.oid, c.relname, t.xmin, i.xmin), ',' ORDER BY c.oid))"
    + _TABLES
    + _OF_USERS
)
_VISIBLE: LiteralString = "SELECT pg_current_snapshot()::text"
_BYTES: LiteralString = (
    "SELECT coalesce(sum(pg_relation_size(relid)), 0)::bigint FROM pg_partition_tree(%s) WHERE isleaf"
)
_BRIEFLY: LiteralString = "SET LOCAL lock_timeout = '500ms'"


@dataclass(frozen=True, slots=True)
class Entry:
    """What publishes a table: an entry for it or an ancestor (`level` above it), or for their schemas.

    `columns` and `row_filter` are what the entry restricts; None: nothing. `mark` changes whenever another
    transaction creates or changes the entry.
    """

    oid: int
    id: CollectionId
    kind: str
    level: int
    via_root: bool
    mark: str
    columns: tuple[str, ...] | None
    row_filter: str | None


@dataclass(frozen=True, slots=True)
class UserTable:
    """A table of a user's, with its parent's oid if it is a partition, else 0.

    `typed` and `linked` are the transactions (32-bit ids) that wrote its row type and its link to the parent.
    `unchanged`: it has had this name and these files since it was created, so it was always logged.
    `born_as_partition`: it was created as a partition of its parent.
    """

    oid: int
    id: CollectionId
    parent: int
    owner: int
    typed: int
    linked: int
    unchanged: bool
    born_as_partition: bool


@dataclass(frozen=True, slots=True)
class UserTables:
    """All tables of users by oid, and the snapshot that they were seen in."""

    by_oid: Mapping[int, UserTable]
    visible: str

    def chain(self, oid: int) -> Iterator[UserTable]:
        """A table, its parent, the parent's parent …"""
        found = self.by_oid.get(oid)
        while found is not None:
            yield found
            found = self.by_oid.get(found.parent)


class Publications:
    """Questions about publications, over one connection."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    @property
    def _in_part(self) -> bool:
        return self._connection.info.server_version >= _IN_PART_SINCE

    def entries(self, name: str, oids: Sequence[int] | None = None) -> list[Entry]:
        """What publishes these tables, or all tables; a table's own entries come first."""
        given = {"publication": name, "oids": None if oids is None else list(oids)}
        with source_errors("listing published tables"):
            rows = self._connection.execute(_IN_PART if self._in_part else _WHOLE, given).fetchall()
        return [
            Entry(
                oid,
                CollectionId((schema, table)),
                kind,
                level,
                via_root,
                mark,
                columns and tuple(columns),
                only,
            )
            for oid, schema, table, kind, level, via_root, mark, columns, only in rows
        ]

    def lacking(self, name: str) -> str:
        """The operations that are not published, as a comma-separated list; empty if all are."""
        with source_errors("reading the publication"):
            row = self._connection.execute(_LACKING, [name]).fetchone()
        return row[0] if row else ""

    def not_full(self, oids: Sequence[int]) -> set[int]:
        """Which of these tables lack REPLICA IDENTITY FULL, themselves or in a partition."""
        with source_errors("looking at replica identities"):
            rows = self._connection.execute(_NOT_FULL, [list(oids)]).fetchall()
        return {oid for (oid,) in rows}

    def digest(self, name: str) -> str:
        """A digest of the publication and its entries; empty if there is no such publication."""
        with source_errors("looking at the publication"):
            query = _DIGEST_IN_PART if self._in_part else _DIGEST_WHOLE
            row = self._connection.execute(query, [name]).fetchone()
        return row[0] if row else ""

    def user_tables(self) -> UserTables:
        """All tables of users."""
        with source_errors("listing tables"):
            rows = self._connection.execute(_USER_TABLES).fetchall()
            visible = rows[0][-1] if rows else self._connection.execute(_VISIBLE).fetchall()[0][0]
        found = (
            UserTable(oid, CollectionId((schema, name)), *rest) for oid, schema, name, *rest, _visible in rows
        )
        return UserTables({table.oid: table for table in found}, visible)

    def is_empty(self, oid: int) -> bool:
        """Whether a table, with its partitions, has no pages; False if somebody changes its definition."""
        with source_errors("looking at a partition"):
            try:
                with self._connection.transaction():
                    self._connection.execute(_BRIEFLY)
                    row = self._connection.execute(_BYTES, [oid]).fetchone()
            except psycopg.errors.LockNotAvailable:
                return False
        return row is not None and not row[0]

    def user_tables_digest(self) -> str:
        """A digest of the oids, names, row types and parents of all tables of users."""
        with source_errors("listing tables"):
            row = self._connection.execute(_USER_TABLES_DIGEST).fetchone()
        return (row[0] or "") if row else ""

    def partitions(self) -> list[tuple[CollectionId, CollectionId]]:
        """Every partition that holds rows, after each table that it is a partition of."""
        with source_errors("listing partitions"):
            rows = self._connection.execute(_ANCESTORS).fetchall()
        return [
            (CollectionId((above, root)), CollectionId((schema, name))) for above, root, schema, name in rows
        ]

    def leaves(self, root: int) -> list[CollectionId]:
        """The partitions below a table that hold rows."""
        with source_errors("listing partitions"):
            rows = self._connection.execute(_LEAVES, [root]).fetchall()
        return [CollectionId((schema, name)) for schema, name in rows]

    def has_all_tables(self, name: str) -> bool | None:
        """Whether the publication is for all tables; None if there is no such publication."""
        with source_errors("publication"):
            row = self._connection.execute(
                "SELECT puballtables FROM pg_publication WHERE pubname = %s", [name]
            ).fetchone()
        return None if row is None else bool(row[0])

    def tables(self, name: str) -> set[CollectionId]:
        """The tables that the publication has."""
        with source_errors("publication"):
            rows = self._connection.execute(
                "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", [name]
            ).fetchall()
        return {CollectionId((schema, table)) for schema, table in rows}

    def creation(self, name: str, tables: Sequence[CollectionId] | None) -> str:
        """The statement that creates a publication for these tables, or for all."""
        return _creation(name, tables).as_string(self._connection)

    def create(self, name: str, tables: Sequence[CollectionId] | None) -> None:
        """Create a publication for these tables, or for all. Raises ConfigError."""
        try:
            self._connection.execute(_creation(name, tables))
        except psycopg.Error as error:
            raise ConfigError(
                f"publication {name!r} does not exist and can't be created: {message_of(error)}",
                hint=f"run as a superuser: {self.creation(name, tables)}",
            ) from error

    def set_tables(self, name: str, tables: Sequence[CollectionId]) -> None:
        """Have the publication name these tables and no others."""
        statement = sql.SQL("ALTER PUBLICATION {} SET TABLE {}").format(sql.Identifier(name), _listed(tables))
        with source_errors("publication"):
            self._connection.execute(statement)


def _creation(name: str, tables: Sequence[CollectionId] | None) -> sql.Composed:
    if tables is None:
        return sql.SQL("CREATE PUBLICATION {} FOR ALL TABLES").format(sql.Identifier(name))
    return sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(sql.Identifier(name), _listed(tables))


def _listed(tables: Sequence[CollectionId]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(*table.parts) for table in tables)
