"""What a publication carries: which tables, under which names, which of their columns and rows.

Reads `pg_publication` and its relations by the rules of PostgreSQL's view `pg_publication_tables`. The view
itself is not used because it opens every table and so waits for locks. Also owns the publication itself: it
is found, created if the settings ask for it, or reported with the statement to run.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

import psycopg
from psycopg import sql

from adapters.postgres.server.connection import source_errors
from adapters.postgres.server.failures import said
from engine.config.sources import Autocreate
from engine.errors import ConfigError
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from adapters.postgres.server.connection import Server

_log = logging.getLogger("adapters")
_PUBLISHES_IN_PART = 150_000
_PARTITIONED = "p"

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


@dataclass(frozen=True, slots=True)
class Share:
    """What the log carries of a table.

    `columns` are the published ones (None: all that are not generated), `row_filter` is the condition of
    published rows, as SQL. `mark` changes whenever another transaction creates or changes the entries that
    publish the table.
    """

    columns: tuple[str, ...] | None
    row_filter: str | None
    mark: str


@dataclass(frozen=True, slots=True)
class _Entry:
    oid: int
    id: CollectionId
    kind: str
    level: int
    via_root: bool
    mark: str
    columns: tuple[str, ...] | None
    row_filter: str | None


class Publication:
    """One publication, and which of its tables the include and exclude lists capture."""

    def __init__(self, name: str, captures: Callable[[str, str], bool]) -> None:
        self.name, self._captures = name, captures

    def captured(self, connection: psycopg.Connection) -> list[CollectionId]:
        """The names of the captured tables, in order."""
        found = _by_table(self._entries(connection, None))
        return [one[0].id for one in found if _as_itself(one) and self._captures(*one[0].id.parts)]

    def marks(self, connection: psycopg.Connection) -> dict[int, str]:
        """The marks of the captured tables, by oid (`Share.mark`)."""
        found = _by_table(self._entries(connection, None))
        return {
            one[0].oid: _share(one).mark
            for one in found
            if _as_itself(one) and self._captures(*one[0].id.parts)
        }

    def groups(self, connection: psycopg.Connection) -> dict[CollectionId, list[CollectionId]]:
        """Partitioned tables that are not captured themselves, with their captured partitions."""
        captured = set(self.captured(connection))
        with source_errors("listing partitions"):
            rows = connection.execute(_ANCESTORS).fetchall()
        found: dict[CollectionId, list[CollectionId]] = {}
        for above, root, schema, name in rows:
            leaf, group = CollectionId((schema, name)), CollectionId((above, root))
            if leaf in captured and group not in captured:
                found.setdefault(group, []).append(leaf)
        return found

    def shares(self, connection: psycopg.Connection, oids: Sequence[int]) -> dict[int, Share]:
        """What is published of these tables, by oid; a table not published under its own name is left out."""
        found = _by_table(self._entries(connection, list(oids)))
        return {one[0].oid: _share(one) for one in found if _as_itself(one)}

    def lacking(self, connection: psycopg.Connection) -> str:
        """The operations that are not published, as a comma-separated list; empty if all are."""
        with source_errors("reading the publication"):
            row = connection.execute(_LACKING, [self.name]).fetchone()
        return row[0] if row else ""

    def leaves(self, connection: psycopg.Connection, root: int) -> list[CollectionId]:
        """The captured partitions below a table."""
        with source_errors("listing partitions"):
            rows = connection.execute(_LEAVES, [root]).fetchall()
        return [CollectionId((schema, name)) for schema, name in rows if self._captures(schema, name)]

    def _entries(self, connection: psycopg.Connection, oids: list[int] | None) -> list[_Entry]:
        with source_errors("listing published tables"):
            query = _IN_PART if connection.info.server_version >= _PUBLISHES_IN_PART else _WHOLE
            rows = connection.execute(query, {"publication": self.name, "oids": oids}).fetchall()
        return [
            _Entry(
                oid,
                CollectionId((schema, name)),
                kind,
                level,
                via_root,
                mark,
                columns and tuple(columns),
                only,
            )
            for oid, schema, name, kind, level, via_root, mark, columns, only in rows
        ]


def _by_table(entries: Iterable[_Entry]) -> list[list[_Entry]]:
    """The entries of each table: its own first, then its ancestors'."""
    found: dict[int, list[_Entry]] = {}
    for entry in entries:
        found.setdefault(entry.oid, []).append(entry)
    return list(found.values())


def _as_itself(entries: Sequence[_Entry]) -> bool:
    """Whether changes of the table carry its own name, not that of an ancestor or of its partitions."""
    return entries[-1].level == 0 if entries[0].via_root else entries[0].kind != _PARTITIONED


def _share(entries: Sequence[_Entry]) -> Share:
    own = entries[0] if entries[0].level == 0 else None
    mark = ", ".join(entry.mark for entry in entries)
    return Share(own.columns, own.row_filter, mark) if own else Share(None, None, mark)


def ensure_publication(
    server: Server, name: str, mode: Autocreate, captured: Callable[[], Sequence[CollectionId]]
) -> None:
    """Find the publication or create it; for `filtered` also update its tables.

    `captured` returns the tables that the lists capture, and is called only for `filtered`. Raises
    ConfigError with the statement to run if the publication is missing and may not be created.
    """
    with server.connect() as connection:
        with source_errors("publication"):
            found = connection.execute(
                "SELECT puballtables FROM pg_publication WHERE pubname = %s", [name]
            ).fetchone()
        wanted = captured() if mode is Autocreate.FILTERED else ()
        if found is None:
            _create(connection, name, mode, wanted)
        elif mode is Autocreate.FILTERED and not found[0]:
            _alter(connection, name, wanted)


def _tables(captured: Sequence[CollectionId]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(*collection.parts) for collection in captured)


def _create(
    connection: psycopg.Connection, name: str, mode: Autocreate, captured: Sequence[CollectionId]
) -> None:
    create: LiteralString = "CREATE PUBLICATION {} FOR ALL TABLES"
    statement = sql.SQL(create).format(sql.Identifier(name))
    if mode is Autocreate.FILTERED:
        if not captured:
            raise ConfigError("no table matches the include and exclude lists", hint="mend the lists")
        statement = sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(
            sql.Identifier(name), _tables(captured)
        )
    text = statement.as_string(connection)
    if mode is Autocreate.DISABLED:
        raise ConfigError(f"publication {name!r} does not exist", hint=f"run: {text}")
    try:
        connection.execute(statement)
    except psycopg.Error as error:
        raise ConfigError(
            f"publication {name!r} does not exist and can't be created: {said(error)}",
            hint=f"run as a superuser: {text}",
        ) from error
    _log.info("created publication %s", name)


def _alter(connection: psycopg.Connection, name: str, captured: Sequence[CollectionId]) -> None:
    statement = sql.SQL("ALTER PUBLICATION {} SET TABLE {}").format(sql.Identifier(name), _tables(captured))
    with source_errors("publication"):
        published = connection.execute(
            "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", [name]
        ).fetchall()
        if set(published) != {collection.parts for collection in captured}:
            connection.execute(statement)
            _log.info("publication %s now names %d tables", name, len(captured))
