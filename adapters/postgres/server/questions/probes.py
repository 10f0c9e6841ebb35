"""Questions about the rows of tables: sizes, plans, and single keys. None scans a table.

Errors of a single table pass as the driver raises them; `failures.table_errors` around them names the table.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

import psycopg

from adapters.disclosure import condition_refused
from adapters.postgres.server.failures import source_errors
from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.model import Key

_PLANNING: LiteralString = "SET TRANSACTION READ ONLY; SET LOCAL statement_timeout = '5s'"
"""For planning a condition, because planning runs functions that are declared immutable."""
_REFUSALS = (
    psycopg.ProgrammingError,
    psycopg.DataError,
    psycopg.NotSupportedError,
    psycopg.errors.ProgramLimitExceeded,
    psycopg.errors.StatementTooComplex,
    psycopg.errors.QueryCanceled,
    psycopg.errors.ReadOnlySqlTransaction,
)
"""The errors by which the server refuses to plan a condition."""
_SAMPLED = 8
_SIZES: LiteralString = (
    "SELECT c.oid::bigint, coalesce(sum({size}), 0)::bigint, CASE"
    " WHEN bool_or(part.reltuples <= 0 AND {pages} > 0) THEN -1"
    " ELSE coalesce(sum(greatest(part.reltuples, 0) * greatest({pages} / greatest(part.relpages, 1), 1))"
    "  FILTER (WHERE part.relkind <> 'p'), 0) END::float8"
    " FROM pg_class c JOIN LATERAL (SELECT p.* FROM pg_class p WHERE p.oid = c.oid"
    "  OR (c.relkind = 'p' AND p.oid IN (SELECT relid FROM pg_partition_tree(c.oid)"
    "   WHERE isleaf))) part ON true LEFT JOIN pg_class toast ON toast.oid = part.reltoastrelid"
    " WHERE c.oid = ANY (%s) GROUP BY c.oid"
)
"""A table that has grown since it was analysed counts as having so many more rows, as for the planner."""
_SIZE_NOW: LiteralString = "pg_table_size(part.oid)"
_PAGES_NOW: LiteralString = "(pg_relation_size(part.oid)::float8 / current_setting('block_size')::bigint)"
_SIZE_NOTED: LiteralString = (
    "(part.relpages + coalesce(toast.relpages, 0)) * current_setting('block_size')::bigint"
)
_PAGES_NOTED: LiteralString = "part.relpages::float8"
_PAGES: LiteralString = (
    "SELECT max(pg_relation_size(relid)) / current_setting('block_size')::bigint"
    " FROM (SELECT %s::oid UNION ALL SELECT relid FROM pg_partition_tree(%s) WHERE isleaf) AS t (relid)"
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What the server expects of a query: how many rows, and whether a limit cuts them."""

    rows: int
    limited: bool


class TableProbes:
    """Questions about the rows of tables, over one connection."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def sizes(self, oids: Sequence[int]) -> dict[int, tuple[int, float]]:
        """Bytes and estimated rows, by oid; -1 rows if a part with rows was never analysed.

        Where a table is locked, these are the page counts last recorded in the catalog.
        """
        now = _SIZES.format(size=_SIZE_NOW, pages=_PAGES_NOW)
        noted = _SIZES.format(size=_SIZE_NOTED, pages=_PAGES_NOTED)
        with source_errors("measuring tables"):
            try:
                rows = self._connection.execute(now, [list(oids)]).fetchall()
            except psycopg.errors.LockNotAvailable:
                rows = self._connection.execute(noted, [list(oids)]).fetchall()
        return {oid: (size, tuples) for oid, size, tuples in rows}

    def pages(self, oid: int) -> int:
        """The pages of a table, or of its largest partition."""
        row = self._connection.execute(_PAGES, [oid, oid]).fetchone()
        return int(row[0]) if row else 0

    def last_rows_bytes(self, relation: str, reverse_order: str) -> float:
        """The average size of the last rows' text, without the largest of them.

        One huge row says nothing about the others: counted in, it would make windows of a few rows.
        """
        row = self._connection.execute(
            "SELECT coalesce((sum(size) - max(size)) / nullif(count(*) - 1, 0), max(size), 0)::float8 FROM"
            f" (SELECT octet_length(r::text) AS size FROM (SELECT * FROM {relation}"
            f" ORDER BY {reverse_order} LIMIT {_SAMPLED}) AS r) AS s".encode()
        ).fetchone()
        return float(row[0]) if row else 0.0

    def check_readable(self, relation: str) -> None:
        """Fail if the role may not read the table, without reading it."""
        self._connection.execute(f"EXPLAIN SELECT FROM {relation}".encode())

    def plan(self, relation: str, where: str = "true") -> Plan:
        """What the server expects of reading the rows of a relation."""
        query = f"EXPLAIN (FORMAT JSON) SELECT FROM {relation} WHERE {where}"
        row = self._connection.execute(query.encode()).fetchone()
        if row is None:
            raise SourceError("the server gave no plan")
        found = row[0][0]["Plan"]
        return Plan(int(found["Plan Rows"]), "'Node Type': 'Limit'" in str(found))

    def refusal(self, relation: str, condition: str) -> str | None:
        """Why the server refuses to plan a condition; None if it plans it.

        Raises TimeoutError if that takes too long; the connection is closed then.
        """
        query = f"EXPLAIN SELECT FROM {relation} WHERE ({condition}\n)"
        try:
            with self._connection.transaction():
                self._connection.execute(_PLANNING)
                # Prepared: the extended protocol accepts only one statement.
                self._connection.execute(query.encode(), prepare=True)
        except (psycopg.errors.ConnectionTimeout, psycopg.errors.QueryCanceled) as error:
            # The planner evaluates constant arithmetic at once and ignores timeouts, so we stop waiting.
            raise TimeoutError from error
        except _REFUSALS as error:
            return condition_refused(error.sqlstate, type(error).__name__)
        return None

    def ranked(self, query: str) -> list[tuple[int, Key]] | str:
        """The rank and the key in each row of a query; or why the server refuses it."""
        try:
            with self._connection.transaction():
                self._connection.execute(_PLANNING)
                rows = self._connection.execute(query.encode()).fetchall()
        except _REFUSALS as error:
            return condition_refused(error.sqlstate, type(error).__name__)
        return [(int(rank), tuple(key)) for rank, *key in rows]

    @contextmanager
    def by_index(self) -> Iterator[None]:
        """Look keys up inside: where an index has the order, a plan that sorts the rest is never better."""
        with self._connection.transaction():
            self._connection.execute("SET LOCAL enable_sort = off")
            self._connection.execute("SET LOCAL enable_seqscan = off")
            yield

    def key(self, texts: str, relation: str, order: str, where: str = "true", skipped: int = 0) -> Key | None:
        """The key of the row that comes after `skipped` others in this order; None if there is none."""
        row = self._connection.execute(
            f"SELECT {texts} FROM {relation} WHERE {where} ORDER BY {order} OFFSET {skipped} LIMIT 1".encode()
        ).fetchone()
        return None if row is None else tuple(row)
