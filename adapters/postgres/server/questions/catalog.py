"""Tables and types from the server's catalog, in a fixed number of queries for any number of tables.

Everything comes from pg_catalog, which every role may read. What the answers mean for a snapshot is decided
elsewhere.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from adapters.postgres.server.failures import message_of
from adapters.postgres.server.sql import quote_literal
from adapters.postgres.server.table import Column, Leaves, PgType, Table
from adapters.postgres.server.text_settings import TEXT_SETTINGS
from engine.errors import SourceError, TableBusy
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_HIDDEN = "('pg_catalog', 'information_schema', 'pg_toast')"

_LISTED = f"""
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND n.nspname NOT IN {_HIDDEN}
ORDER BY n.nspname, c.relname
"""
_WANTED = """%(oids)s::oid[] || ARRAY(
SELECT c.oid FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS wanted(schema, name)
JOIN pg_namespace n ON n.nspname = wanted.schema
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = wanted.name
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f'))"""
_TABLES = f"""
SELECT c.oid, n.nspname, c.relname, c.relkind, c.relreplident, pg_relation_filenode(c.oid), c.relpersistence,
       c.relispartition, c.relrowsecurity,
       ARRAY(SELECT inhparent FROM pg_inherits WHERE inhrelid = c.oid ORDER BY inhseqno)::oid[],
       ARRAY(SELECT inhrelid FROM pg_inherits WHERE inhparent = c.oid ORDER BY inhrelid)::oid[]
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY({_WANTED})
"""
_DEFAULT = "CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END"
_COLUMNS = f"""
SELECT a.attrelid, a.attname, a.atttypid, a.atttypmod,
       NOT a.attnotnull OR (a.attrelid, a.attnum) IN (
           SELECT conrelid, conkey[1] FROM pg_constraint
           WHERE conrelid = ANY({_WANTED}) AND contype = 'n' AND NOT convalidated),
       {_DEFAULT},
       a.attgenerated, a.attnum, a.attidentity, a.attcollation, t.typtype = 'd' AND t.typnotnull
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = ANY({_WANTED}) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum
"""
"""A column may be NULL until its NOT NULL is validated, and if only its domain is NOT NULL.

From PostgreSQL 18 on, NOT NULL can be NOT VALID: `attnotnull` is set, and older rows may have NULL. An INSERT
of an outer join's result gets past a domain's NOT NULL, see
https://www.postgresql.org/docs/current/sql-createdomain.html
"""
_KEYS = f"""
SELECT i.indrelid, i.indisprimary, i.indisreplident, i.indimmediate,
       i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL,
       ARRAY(SELECT a.attname FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(num, place)
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.num
             WHERE k.place <= i.indnkeyatts ORDER BY k.place)::text[]
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = ANY({_WANTED}) AND i.indisunique ORDER BY i.indrelid, c.relname
"""
_LEAVES = f"""
WITH RECURSIVE tree (root, relid) AS (
    SELECT oid, oid FROM pg_class WHERE relkind = 'p' AND oid = ANY({_WANTED})
    UNION ALL SELECT tree.root, i.inhrelid FROM tree
    JOIN pg_class c ON c.oid = tree.relid AND c.relkind = 'p' JOIN pg_inherits i ON i.inhparent = c.oid),
leaf AS (
    SELECT tree.root, n.nspname, c.relname, c.relreplident AS identity,
           ARRAY(SELECT a.attname FROM pg_index i
                 CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k(num, place)
                 JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.num
                 WHERE i.indrelid = c.oid AND k.place <= i.indnkeyatts AND CASE c.relreplident
                 WHEN 'd' THEN i.indisprimary AND i.indimmediate WHEN 'i' THEN i.indisreplident END
                 ORDER BY k.place)::text[] AS key
    FROM tree JOIN pg_class c ON c.oid = tree.relid AND c.relkind = 'r'
    JOIN pg_namespace n ON n.oid = c.relnamespace)
SELECT DISTINCT ON (root, identity, key) root, nspname, relname, identity, key FROM leaf
ORDER BY root, identity, key, nspname, relname
"""
"""Takes no locks, unlike the functions over partitions. One partition stands for all that are alike."""
_TYPES = """
SELECT t.oid, t.typname, n.nspname, t.typtype, t.typcategory,
       coalesce(e.oid, 0), t.typbasetype, t.typtypmod,
       ARRAY(SELECT enumlabel FROM pg_enum WHERE enumtypid = t.oid ORDER BY enumsortorder)::text[]
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typoutput = 'pg_catalog.array_out'::regproc
LEFT JOIN pg_class c ON c.oid = coalesce(nullif(e.typrelid, 0), t.typrelid)
WHERE c.oid IS NULL OR c.relkind = 'c'
"""
"""Arrays are what `array_out` writes. int2vector has their category, and its text has no braces."""


_AS_TEXT = "SELECT " + ", ".join(
    f"set_config({quote_literal(name)}, {quote_literal(value)}, true)"
    for name, value in TEXT_SETTINGS.items()
)
"""Defaults are printed under the same settings as values."""


@dataclass(frozen=True, slots=True)
class _Index:
    primary: bool
    identity: bool
    immediate: bool
    whole: bool
    columns: tuple[str, ...]


class Catalog:
    """Questions about the tables and types of one database, over one connection.

    Each call is a transaction of its own. Raises SourceError for the driver's failures.
    """

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def tables(self) -> list[CollectionId]:
        """Every permanent table and partitioned table outside the system's schemas, by name."""
        return [CollectionId((schema, name)) for schema, name in self._queries(_LISTED)[0]]

    def describe(self, tables: Iterable[int | CollectionId], *, defaults: bool = True) -> dict[int, Table]:
        """The tables by oid; one that does not exist (any more) is left out.

        All are read from one snapshot, in four queries. Reading the columns' defaults needs locks on the
        tables, and raises TableBusy if one is not granted soon. Without `defaults` nothing is locked.
        """
        wanted = list(tables)
        named = [table for table in wanted if isinstance(table, CollectionId)]
        asked: dict[str, Sequence[object]] = {
            "oids": [table for table in wanted if isinstance(table, int)],
            "schemas": [collection.parts[0] for collection in named],
            "names": [collection.parts[-1] for collection in named],
        }
        columns_query = _COLUMNS if defaults else _COLUMNS.replace(_DEFAULT, "NULL::text")
        found, columns, keys, leaves = self._queries(_TABLES, columns_query, _KEYS, _LEAVES, asked=asked)
        by_table: dict[int, list[Column]] = {}
        for oid, *column in columns:
            by_table.setdefault(oid, []).append(Column(*column))
        indexes: dict[int, list[_Index]] = {}
        for oid, primary, identity, immediate, whole, names in keys:
            index = _Index(primary, identity, immediate, whole, tuple(names))
            indexes.setdefault(oid, []).append(index)
        below: dict[int, list[Leaves]] = {}
        for oid, schema, name, identity, key in leaves:
            below.setdefault(oid, []).append(Leaves(CollectionId((schema, name)), identity, tuple(key)))
        return {
            row[0]: _table(row, by_table.get(row[0], []), indexes.get(row[0], []), below.get(row[0], []))
            for row in found
        }

    def types(self) -> dict[int, PgType]:
        """Every type of the database that a column can have, except the row types of tables."""
        return {row[0]: _type(row) for row in self._queries(_TYPES)[0]}

    def _queries(
        self, *queries: str, asked: Mapping[str, Sequence[object]] | None = None
    ) -> list[list[tuple[Any, ...]]]:
        """The queries' results. All are sent at once, on a connection that is in no transaction."""
        try:
            return _sent_together(self._connection, queries, asked)
        except psycopg.Error as error:
            with suppress(psycopg.Error):
                self._connection.rollback()
            raise _failure(error) from error


def _failure(error: psycopg.Error) -> SourceError:
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return TableBusy("a table that must be described is locked by another session")
    return SourceError(f"the catalog can't be read: {message_of(error)}", where="catalog")


def _sent_together(
    connection: psycopg.Connection, queries: Sequence[str], asked: Mapping[str, Sequence[object]] | None
) -> list[list[tuple[Any, ...]]]:
    with connection.pipeline():
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(_AS_TEXT)
        cursors = [connection.execute(query.encode(), asked) for query in queries]
        connection.execute("COMMIT")
        return [cursor.fetchall() for cursor in cursors]


def _type(row: tuple[Any, ...]) -> PgType:
    oid, name, schema, kind, category, element, base, typmod, labels = row
    return PgType(oid, name, schema, kind, category, element, base, typmod, tuple(labels))


def _table(row: tuple[Any, ...], columns: list[Column], indexes: list[_Index], leaves: list[Leaves]) -> Table:
    oid, schema, name, kind, identity, filenode, persistence, partition, secured, parents, children = row
    not_null = {column.name for column in columns if not column.nullable}
    primary = next((index for index in indexes if index.primary), None)
    others = (index for index in indexes if index.whole and not index.primary)
    unique = tuple(other.columns for other in others if not_null.issuperset(other.columns))
    chosen = next((index.columns for index in indexes if index.identity), ())
    if identity == "d":
        # A deferrable key is checked at the end of a transaction and identifies no row before that.
        chosen = primary.columns if primary and primary.immediate else ()
    return Table(
        oid,
        CollectionId((schema, name)),
        kind,
        tuple(columns),
        primary_key=primary.columns if primary else (),
        unique_key=unique[0] if unique else (),
        other_keys=unique[1:],
        identity=identity,
        identity_key=chosen if identity in {"d", "i"} else (),
        relfilenode=filenode or 0,
        persistence=persistence,
        partition=partition,
        parents=tuple(parents),
        children=tuple(children),
        row_security=secured,
        leaves=tuple(leaves),
    )
