"""What can be asked for, how large it is, and where to cut it: the engine's `Tables` on PostgreSQL.

Owns which tables are captured, which can be snapshotted and by which key, and the queries for the
extent and the boundaries of one. All of them use the key's index; none reads a table through.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

import psycopg

from adapters.postgres.keyset import KeyColumn, Keyset
from adapters.postgres.server import source_errors, table_errors
from adapters.postgres.sql import quote_ident, quote_table
from adapters.postgres.table import merge_key
from engine.errors import SchemaChanged, SignalError, SourceError, TableBusy
from engine.model import CollectionId
from engine.snapshot import Extent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adapters.postgres.catalog import Catalog
    from adapters.postgres.table import Table
    from engine.model import Key, Target

_WHOLE_BYTES = 1 << 20
_DENSE = 0.2
_INTEGERS = frozenset(quote_table("pg_catalog", name) for name in ("int2", "int4", "int8"))
_SIZES: LiteralString = (
    "SELECT c.oid::bigint, coalesce(sum({size}), 0)::bigint, sum(part.reltuples)::float8"
    " FROM pg_class c JOIN LATERAL (SELECT p.* FROM pg_class p WHERE p.oid = c.oid"
    "  OR (c.relkind = 'p' AND p.oid IN (SELECT relid FROM pg_partition_tree(c.oid)"
    "   WHERE isleaf))) part ON true LEFT JOIN pg_class toast ON toast.oid = part.reltoastrelid"
    " WHERE c.oid = ANY (%s) GROUP BY c.oid"
)
_SIZE_NOW: LiteralString = "pg_table_size(part.oid)"
_SIZE_NOTED: LiteralString = (
    "(part.relpages + coalesce(toast.relpages, 0)) * current_setting('block_size')::bigint"
)
_ORDINARY, _PARTITIONED = "r", "p"
_FULL = "f"
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}


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
"""What key columns' types are made of, where their operators are, and the labels of enums."""


@dataclass(frozen=True, slots=True)
class _KeyType:
    name: str
    compared: tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table as a snapshot reads it: the catalog's description, the keyset it is cut by, its merge key."""

    table: Table
    keyset: Keyset
    merge: Keyset

    @property
    def relation(self) -> str:
        """The table in a FROM clause. Heirs are tables of their own; partitions are not."""
        only = "" if self.table.kind == _PARTITIONED else "ONLY "
        return only + ".".join(quote_ident(part) for part in self.table.id.parts)


class Extents:
    """Reads the catalog and the keys through one connection, which the job's thread alone uses."""

    def __init__(
        self,
        connection: psycopg.Connection,
        catalog: Catalog,
        captured: CapturedTables,
        *,
        whole_bytes: int | None = None,
    ) -> None:
        self._connection, self._catalog = connection, catalog
        self._captured = captured
        self._whole_bytes = _WHOLE_BYTES if whole_bytes is None else whole_bytes
        self._row_bytes: dict[CollectionId, float] = {}

    def captured(self) -> Sequence[CollectionId]:
        """The tables whose changes are captured, by name."""
        return self._captured.names(self._connection)

    def measure(
        self, targets: Sequence[Target], *, bounded: bool = False
    ) -> list[Extent | SignalError | TableBusy]:
        """The extent of each table, or why it can't be read, now or at all; `bounded`: none whole."""
        tables = self._describe([target.collection for target in targets])
        sizes = self._sizes([table.oid for table in tables.values()])
        whole_bytes = 0 if bounded else self._whole_bytes
        return [self._judged(target, tables.get(target.collection), sizes, whole_bytes) for target in targets]

    def _judged(
        self, target: Target, table: Table | None, sizes: Mapping[int, tuple[int, float]], whole_bytes: int
    ) -> Extent | SignalError | TableBusy:
        try:
            with table_errors("measuring the table", target.collection):
                return self._measured(target, table, sizes, whole_bytes)
        except (SignalError, TableBusy) as error:
            return error
        except SchemaChanged as error:
            return SignalError(error.message, place=error.place, hint=error.hint)

    def _describe(
        self, names: Sequence[CollectionId], *, defaults: bool = False
    ) -> dict[CollectionId, Table]:
        return {table.id: table for table in self._catalog.describe(names, defaults=defaults).values()}

    def row_bytes(self, target: Target) -> float:
        """The estimated size of a row, as measured last."""
        return self._row_bytes.get(target.collection, 1000.0)

    def _sizes(self, oids: Sequence[int]) -> dict[int, tuple[int, float]]:
        """Bytes and estimated rows by oid; -1 rows where the table was never analysed.

        What the catalog last noted of its pages serves where a table is locked.
        """
        with source_errors("measuring tables"):
            try:
                rows = self._connection.execute(_SIZES.format(size=_SIZE_NOW), [list(oids)]).fetchall()
            except psycopg.errors.LockNotAvailable:
                rows = self._connection.execute(_SIZES.format(size=_SIZE_NOTED), [list(oids)]).fetchall()
        return {oid: (size, tuples) for oid, size, tuples in rows}

    def _measured(
        self, target: Target, table: Table | None, sizes: Mapping[int, tuple[int, float]], whole_bytes: int
    ) -> Extent:
        read = self._reading(target, table)
        self._captured.check(self._connection, read.table)
        self._check_condition(read, target)
        size, tuples = sizes.get(read.table.oid, (0, -1.0))
        rows = self._estimated_rows(read) if tuples <= 0 and size else int(max(tuples, 0))
        self._row_bytes[target.collection] = size / max(rows, 1)
        key = read.keyset.fingerprint
        if size <= whole_bytes:
            self._probe(read)
            return Extent(rows, size, whole=True, key=key)
        greatest = self._edge(read, read.keyset.reverse_order)
        return Extent(rows, size, greatest=greatest, span=self._span(read, greatest, rows), key=key)

    def _probe(self, read: ReadTable) -> None:
        """Find out whether the role may read the table, without reading it."""
        self._connection.execute(f"EXPLAIN SELECT FROM {read.relation}".encode())

    def _check_condition(self, read: ReadTable, target: Target) -> None:
        """Let the server plan the signal's condition, which is refused at once if it can't be."""
        if target.condition is None:
            return
        query = f"EXPLAIN SELECT FROM {read.relation} WHERE ({target.condition}\n)"
        try:
            # Prepared: the extended protocol takes one statement and no more.
            self._connection.execute(query.encode(), prepare=True)
        except (psycopg.ProgrammingError, psycopg.DataError, psycopg.NotSupportedError) as error:
            said = (error.diag.message_primary or str(error)).strip()
            raise SignalError(
                f"the condition {target.condition!r} is refused: {said}", place=str(target.collection)
            ) from error

    def readings(self, targets: Sequence[Target]) -> dict[Target, ReadTable]:
        """How to read each target now; SchemaChanged if one can't be read any more."""
        tables = self._describe([target.collection for target in targets], defaults=True)
        try:
            return {target: self._reading(target, tables.get(target.collection)) for target in targets}
        except SignalError as error:
            raise SchemaChanged(error.message, place=error.place, hint=error.hint) from error

    def _reading(self, target: Target, table: Table | None) -> ReadTable:
        """How to read a target; SignalError says why it can't be."""
        if table is None:
            raise SignalError("there is no such table", place=str(target.collection))
        if table.kind not in {_ORDINARY, _PARTITIONED}:
            what = _KINDS.get(table.kind, "no table")
            raise SignalError(f"{what} can't be snapshotted", place=str(target.collection))
        if table.persistence != "p":
            raise SignalError(
                "an unlogged or temporary table has no changes in the log", place=str(target.collection)
            )
        if table.row_security and self._hides_rows(table):
            raise SignalError(
                "row-level security hides rows of the table from the role",
                place=str(target.collection),
                hint="ALTER ROLE … BYPASSRLS, or read as the table's owner",
            )
        keyset = self._keyset(table, self._key(table, target.surrogate_key))
        names = merge_key(table)
        if not names and table.identity != _FULL:
            _refuse_generated(table, keyset)
        return ReadTable(table, keyset, self._keyset(table, names) if names else keyset)

    def _hides_rows(self, table: Table) -> bool:
        row = self._connection.execute("SELECT row_security_active(%s::oid)", [table.oid]).fetchone()
        return bool(row and row[0])

    def _key(self, table: Table, surrogate: str | None) -> tuple[str, ...]:
        names = tuple(surrogate.split(",")) if surrogate else table.primary_key or table.unique_key
        names = tuple(name.strip() for name in names)
        if not names:
            raise SignalError(
                "the table has neither a primary key nor a unique index over NOT NULL columns",
                place=str(table.id),
                hint='name a column to order it by in "surrogate-key"',
            )
        if any(table.column(name) is None for name in names):
            known = ", ".join(column.name for column in table.columns)
            raise SignalError(
                f"no column {surrogate!r} for a surrogate key", place=str(table.id), hint=f"columns: {known}"
            )
        return names

    def _keyset(self, table: Table, names: tuple[str, ...]) -> Keyset:
        columns = [column for name in names if (column := table.column(name))]
        types = self._key_types([column.type for column in columns])
        return Keyset(
            tuple(
                KeyColumn(column.name, kind.name, column.nullable, column.collation, *kind.compared)
                for column in columns
                if (kind := types[column.type])
            )
        )

    def _key_types(self, oids: Sequence[int]) -> dict[int, _KeyType]:
        with source_errors("reading types"):
            rows = self._connection.execute(_KEY_TYPES, [list(oids)]).fetchall()
        # Not format_type(): its "character" and "bit" mean a length of 1 and would cut bounds short.
        return {
            oid: _KeyType(quote_table(schema, name), (operators or "", tuple(labels)))
            for oid, schema, name, operators, labels in rows
        }

    def _edge(self, read: ReadTable, order: str, where: str = "true", skipped: int = 0) -> Key | None:
        row = self._connection.execute(
            f"SELECT {read.keyset.texts} FROM {read.relation} WHERE {where}"
            f" ORDER BY {order} OFFSET {skipped} LIMIT 1".encode()
        ).fetchone()
        return None if row is None else tuple(row)

    def _estimated_rows(self, read: ReadTable) -> int:
        plan = self._connection.execute(
            f"EXPLAIN (FORMAT JSON) SELECT FROM {read.relation}".encode()
        ).fetchone()
        if plan is None:
            raise SourceError("the server gave no plan", place=str(read.table.id))
        return int(plan[0][0]["Plan"]["Plan Rows"])

    def _span(self, read: ReadTable, greatest: Key | None, rows: int) -> tuple[int, int] | None:
        """Least and greatest value of a single integer key, if it is used densely enough."""
        columns = read.keyset.columns
        if greatest is None or len(columns) != 1 or columns[0].type not in _INTEGERS or columns[0].nullable:
            return None
        least = self._edge(read, read.keyset.order)
        if least is None or least[0] is None or greatest[0] is None:
            return None
        low, high = int(least[0]), int(greatest[0])
        return (low, high) if rows >= _DENSE * (high - low + 1) else None

    def boundaries(
        self, target: Target, after: Key | None, upto: Key, step_rows: int, count: int
    ) -> list[Key]:
        """Keys below `upto` at every `step_rows` rows behind `after`, each found from the last one."""
        tables = self._describe([target.collection])
        try:
            read = self._reading(target, tables.get(target.collection))
        except SignalError as error:
            raise SchemaChanged(error.message, place=error.place, hint=error.hint) from error
        found: list[Key] = []
        with table_errors("finding chunk boundaries", target.collection), self._connection.transaction():
            # Where an index has the order, a plan that sorts the rest of the table is never better.
            self._connection.execute("SET LOCAL enable_sort = off")
            self._connection.execute("SET LOCAL enable_seqscan = off")
            while len(found) < count:
                after = self._step(read, after, upto, step_rows)
                if after is None or after == upto:
                    break
                found.append(after)
        return found

    def _step(self, read: ReadTable, after: Key | None, upto: Key, rows: int) -> Key | None:
        """The key `rows` rows behind `after`, or the last one before the NULLs; None behind the last."""
        keyset = read.keyset
        *before, last = keyset.stretches(after, upto)
        for where in before:
            found = self._edge(read, keyset.order, where, rows - 1)
            found = found or self._edge(read, keyset.reverse_order, where)
            if found is not None:
                return found
        return self._edge(read, keyset.order, last, rows - 1)


def _refuse_generated(table: Table, keyset: Keyset) -> None:
    """The log would tell of no row by which key it was changed."""
    known = {*table.identity_key, *table.primary_key, *table.unique_key}
    known.update(column.name for column in keyset.columns)
    generated = [column.name for column in table.columns if column.generated and column.name in known]
    if generated:
        raise SignalError(
            f"the key column {generated[0]!r} is generated, and the log leaves it out",
            place=str(table.id),
            hint="set REPLICA IDENTITY FULL on the table, or give it a key of other columns",
        )


class CapturedTables:
    """Which published tables are captured, by the include and exclude lists."""

    def __init__(self, publication: str, captures: Callable[[str, str], bool]) -> None:
        self._publication, self._captures = publication, captures

    def names(self, connection: psycopg.Connection) -> list[CollectionId]:
        """Their names, in order.

        PostgreSQL's own view opens every table; where one is locked, the catalog is asked instead.
        """
        with source_errors("listing published tables"):
            try:
                rows = connection.execute(_PUBLISHED, [self._publication]).fetchall()
            except psycopg.errors.LockNotAvailable:
                by_schema = _BY_SCHEMA if connection.info.server_version >= _PUBLISHES_SCHEMAS else ""
                rows = connection.execute(_LISTED.format(by_schema=by_schema), [self._publication]).fetchall()
        return [CollectionId((schema, name)) for schema, name in rows if self._captures(schema, name)]

    def check(self, connection: psycopg.Connection, table: Table) -> None:
        """Refuse a snapshot of a table of which the log carries less than the table holds.

        A row that it does not tell of could be read over, or for ever stay behind.
        """
        lacking = connection.execute(_NOT_PUBLISHED, [self._publication]).fetchone()
        if lacking and lacking[0]:
            raise SignalError(
                f"publication {self._publication!r} does not publish {lacking[0]}",
                place=str(table.id),
                hint="ALTER PUBLICATION … SET (publish = 'insert, update, delete, truncate')",
            )
        if connection.info.server_version < _PUBLISHES_SCHEMAS:
            return
        partial = connection.execute(_PUBLISHED_IN_PART, [self._publication, table.oid, table.oid]).fetchone()
        if partial:
            what = "a row filter" if partial[0] else "a column list"
            raise SignalError(
                f"publication {self._publication!r} has {what} for the table, which reading can't apply",
                place=str(table.id),
                hint="publish the whole table to take snapshots of it; streaming goes on",
            )


_NOT_PUBLISHED: LiteralString = (
    "SELECT concat_ws(', ', CASE WHEN NOT pubinsert THEN 'insert' END, CASE WHEN NOT pubupdate THEN 'update'"
    " END, CASE WHEN NOT pubdelete THEN 'delete' END, CASE WHEN NOT pubtruncate THEN 'truncate' END)"
    " FROM pg_publication WHERE pubname = %s"
)
_PUBLISHED_IN_PART: LiteralString = (
    "SELECT r.prqual IS NOT NULL FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid"
    " WHERE p.pubname = %s AND (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL)"
    " AND (r.prrelid = %s OR r.prrelid IN (SELECT relid FROM pg_partition_ancestors(%s)))"
)
_PUBLISHED: LiteralString = (
    "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s ORDER BY 1, 2"
)
_PUBLISHES_SCHEMAS = 150_000
_BY_SCHEMA: LiteralString = (
    " OR EXISTS (SELECT FROM pg_publication_namespace s"
    " WHERE s.pnpubid = p.oid AND s.pnnspid = c.relnamespace)"
)
_LISTED: LiteralString = (
    "SELECT n.nspname, c.relname FROM pg_publication p, pg_class c"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = %s"
    " AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p'"
    " AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
    " AND CASE WHEN p.pubviaroot THEN NOT c.relispartition ELSE c.relkind = 'r' END"
    " AND (p.puballtables OR EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid"
    " AND (r.prrelid = c.oid OR r.prrelid IN (SELECT relid FROM pg_partition_ancestors(c.oid))))"
    "{by_schema}) ORDER BY 1, 2"
)
