"""Questions about tables' layouts: partitions, columns' entries, labels, key types, who sees which rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

import psycopg

from adapters.postgres.server.failures import source_errors
from adapters.postgres.server.sql import quote_table
from engine.errors import ConfigError
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TREES: LiteralString = """
WITH RECURSIVE tree (root, relid) AS (
    SELECT oid, oid FROM pg_class WHERE oid = ANY (%s)
    UNION ALL SELECT tree.root, i.inhrelid FROM tree
    JOIN pg_class c ON c.oid = tree.relid AND c.relkind = 'p' JOIN pg_inherits i ON i.inhparent = c.oid)
SELECT tree.root::bigint, tree.relid::bigint, n.nspname, c.relname, c.relkind = 'p', c.relfilenode::bigint,
       md5(concat_ws(' ', c.oid, c.reltoastrelid, (
           SELECT string_agg(concat_ws(' ', a.attnum, a.xmin), ',' ORDER BY a.attnum)
           FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)))
FROM tree JOIN pg_class c ON c.oid = tree.relid JOIN pg_namespace n ON n.oid = c.relnamespace
ORDER BY tree.root, tree.relid
"""
_LABELS: LiteralString = """
WITH RECURSIVE made (relid, type) AS (
    SELECT attrelid, atttypid FROM pg_attribute
    WHERE attrelid = ANY (%s) AND attnum > 0 AND NOT attisdropped AND atttypid >= 16384
    UNION SELECT made.relid, part.type FROM made JOIN pg_type t ON t.oid = made.type CROSS JOIN LATERAL (
        SELECT t.typbasetype WHERE t.typtype = 'd'
        UNION ALL SELECT t.typelem WHERE t.typcategory = 'A'
        UNION ALL SELECT rngsubtype FROM pg_range WHERE rngtypid = t.oid
        UNION ALL SELECT atttypid FROM pg_attribute
            WHERE attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped) part (type)
    WHERE part.type >= 16384)
SELECT made.relid::bigint, md5(string_agg(concat_ws(' ', e.oid, e.enumlabel), ',' ORDER BY e.oid))
FROM made JOIN pg_enum e ON e.enumtypid = made.type GROUP BY made.relid
"""
"""The enum labels that values of a table's columns may have.

Includes labels within arrays, domains, ranges and composites. Built-in types have oids below 16384, and no
labels.
"""
_KEY_TYPES: LiteralString = (
    "WITH RECURSIVE made (asked, type) AS (SELECT oid, oid FROM pg_type WHERE oid = ANY (%s) UNION ALL"
    " SELECT asked, typbasetype FROM made JOIN pg_type ON oid = type WHERE typtype = 'd')"
    " SELECT made.asked::bigint, n.nspname, t.typname,"
    "  (SELECT s.nspname FROM pg_opclass c JOIN pg_am m ON m.oid = c.opcmethod AND m.amname = 'btree'"
    "   JOIN pg_amop a ON a.amopfamily = c.opcfamily AND a.amopstrategy = 5"
    "    AND a.amoplefttype = t.oid AND a.amoprighttype = t.oid"
    "   JOIN pg_operator o ON o.oid = a.amopopr JOIN pg_namespace s ON s.oid = o.oprnamespace"
    "   WHERE c.opcintype = t.oid AND c.opcdefault AND s.nspname <> 'pg_catalog'),"
    "  ARRAY(SELECT enumlabel FROM pg_enum WHERE enumtypid IN (t.oid, t.typelem)"
    "   ORDER BY enumsortorder)::text[]"
    " FROM made JOIN pg_type t ON t.oid = made.type AND t.typtype <> 'd'"
    " JOIN pg_namespace n ON n.oid = t.typnamespace"
)
"""The base types of key columns' types, the schemas of their operators, and the labels of enums."""
_NAMES: LiteralString = (
    "SELECT c.oid::bigint, n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.oid = ANY (%s)"
)
_READABLE: LiteralString = (
    "SELECT n.nspname, c.relname,"
    " has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relpersistence IN ('p', 'u')"
    " AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
    " AND (c.relkind = 'r' OR (c.relkind = 'p'"
    "  AND EXISTS (SELECT FROM pg_publication WHERE pubname = %s AND pubviaroot)))"
)
"""A partitioned table is listed as its partitions, unless changes come under its own name."""
_COLUMNS: LiteralString = (
    "SELECT a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s"
    " AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ANY (%s)"
)
# `relnatts` counts dropped columns, too.
_WIDTHS: LiteralString = "SELECT oid::bigint, relnatts::int FROM pg_class WHERE oid = ANY (%s)"
_WIDTHS_DIGEST: LiteralString = (
    "SELECT md5(string_agg(concat_ws(' ', oid, relnatts), ',' ORDER BY oid))"
    " FROM pg_class WHERE relkind IN ('r', 'p') AND oid >= 16384"
)
# Older rows have values: by a stored default (`atthasmissing`), or since a default rewrote them.
_ADDED: LiteralString = """
SELECT a.attrelid::bigint, a.attname, a.attgenerated <> ''
FROM unnest(%s::bigint[], %s::int[]) AS known (oid, width)
JOIN pg_attribute a ON a.attrelid = known.oid::oid AND a.attnum > known.width AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid
WHERE a.atthasmissing OR a.atthasdef OR a.attidentity <> '' OR t.typdefault IS NOT NULL
ORDER BY a.attrelid, a.attnum
"""
_FILLED: LiteralString = (
    "SELECT DISTINCT attrelid::bigint FROM pg_attribute WHERE attrelid = ANY (%s) AND atthasmissing"
)


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A column that was added with a default, or that is `generated`."""

    name: str
    generated: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """A table below `root`, or `root` itself: where its rows are, and a digest of its columns' entries."""

    root: int
    oid: int
    id: CollectionId
    partitioned: bool
    file: int
    columns: str


@dataclass(frozen=True, slots=True)
class KeyType:
    """A key column's base type, quoted; the schema of its operators ("" for the usual ones), enum labels."""

    name: str
    operators: str
    labels: tuple[str, ...]


class Layouts:
    """Questions about tables' layouts, over one connection."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def of(self, oids: Sequence[int]) -> tuple[list[Layout], Mapping[int, str]]:
        """The layouts of these tables and their partitions; and digests of enum labels, by table."""
        with source_errors("looking at the tables' columns"), self._connection.pipeline():
            trees = self._connection.execute(_TREES, [list(oids)])
            labelled = self._connection.execute(_LABELS, [list(oids)])
            rows = trees.fetchall()
            labels: dict[int, str] = dict(labelled.fetchall())
        layouts = [
            Layout(root, oid, CollectionId((schema, name)), parted, file, columns)
            for root, oid, schema, name, parted, file, columns in rows
        ]
        return layouts, labels

    def key_types(self, oids: Sequence[int]) -> dict[int, KeyType]:
        """The base types of these types, by oid."""
        with source_errors("reading types"):
            rows = self._connection.execute(_KEY_TYPES, [list(oids)]).fetchall()
        # Not format_type(): its "character" and "bit" mean a length of 1 and would cut bounds short.
        return {
            oid: KeyType(quote_table(schema, name), operators or "", tuple(labels))
            for oid, schema, name, operators, labels in rows
        }

    def hides_rows(self, oid: int) -> bool:
        """Whether row-level security hides rows of a table from the role."""
        row = self._connection.execute("SELECT row_security_active(%s::oid)", [oid]).fetchone()
        return bool(row and row[0])

    def names(self, oids: Sequence[int]) -> dict[int, CollectionId]:
        """The names of tables; a table that is gone has none."""
        with source_errors("looking for tables"):
            rows = self._connection.execute(_NAMES, [list(oids)]).fetchall()
        return {oid: CollectionId((schema, table)) for oid, schema, table in rows}

    def widths(self, oids: Sequence[int]) -> dict[int, int]:
        """How many columns these tables have or have had, by oid."""
        with source_errors("looking for new columns"):
            return dict(self._connection.execute(_WIDTHS, [list(oids)]).fetchall())

    def widths_digest(self) -> str:
        """A digest of how many columns the tables of users have or have had."""
        with source_errors("looking for new columns"):
            row = self._connection.execute(_WIDTHS_DIGEST).fetchone()
        return (row[0] or "") if row else ""

    def added(self, widths: Mapping[int, int]) -> dict[int, list[AddedColumn]]:
        """The columns behind these numbers that may have values in rows that were there before, by table."""
        with source_errors("looking for new columns"):
            rows = self._connection.execute(_ADDED, [list(widths), list(widths.values())]).fetchall()
        found: dict[int, list[AddedColumn]] = {}
        for oid, name, generated in rows:
            found.setdefault(oid, []).append(AddedColumn(name, generated))
        return found

    def filled(self, oids: Sequence[int]) -> set[int]:
        """Which of these tables have rows to which a default gave a value after they were written."""
        with source_errors("looking for new columns"):
            return {oid for (oid,) in self._connection.execute(_FILLED, [list(oids)]).fetchall()}

    def readable(self, publication: str) -> dict[CollectionId, bool]:
        """The tables that an initial snapshot may name, and whether the role may read them."""
        with source_errors("listing tables"):
            rows = self._connection.execute(_READABLE, [publication]).fetchall()
        return {CollectionId((schema, name)): readable for schema, name, readable in rows}

    def columns(self, table: CollectionId, *, stored: bool) -> list[str]:
        """The columns of a table that are not generated; with `stored` also those that are stored."""
        kinds = ["", "s"] if stored else [""]
        with source_errors("listing columns"):
            rows = self._connection.execute(_COLUMNS, [*table.parts, kinds]).fetchall()
        return [name for (name,) in rows]

    def columns_of(self, statement: str, table: CollectionId) -> set[str]:
        """The columns that a table's SELECT returns. Raises ConfigError if the server refuses it."""
        query = f"SELECT * FROM ({statement}\n) AS t LIMIT 0"
        try:
            # Prepared: the extended protocol accepts only one statement.
            described = self._connection.execute(query.encode(), prepare=True)
        except psycopg.Error as error:
            said = (error.diag.message_primary or str(error)).strip()
            raise ConfigError(f"the SELECT for {table} is refused: {said}") from error
        return {column.name for column in described.description or ()}
