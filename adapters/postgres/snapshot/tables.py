"""The tables of a source, their sizes, and where to cut them: the engine's `Tables` on PostgreSQL.

Owns the queries for a table's extent and boundaries. All of them use the key's index; none scans a table.
`eligibility.py` decides whether and how a table can be read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg

from adapters.disclosure import condition_refused
from adapters.postgres.server.connection import source_errors, table_errors
from adapters.postgres.server.sql import quote_table
from adapters.postgres.snapshot.eligibility import RISK_TAKEN
from adapters.postgres.snapshot.keyset import PLACES, place_of, places
from adapters.postgres.snapshot.older_writers import PublishedTables, Writers, patience
from adapters.postgres.snapshot.partitions import Partitions
from engine.errors import SchemaChanged, SignalError, SourceError, TableBusy
from engine.snapshot.extent import Extent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adapters.postgres.server.publication import Publication
    from adapters.postgres.snapshot.eligibility import CatalogAnswer, Readable, ReadTable
    from engine.clock import Clock
    from engine.model import CollectionId, Key, Target

_WHOLE_BYTES = 1 << 20
_DENSE = 0.2
_SAMPLED = 8
_PLANNING: LiteralString = "SET TRANSACTION READ ONLY; SET LOCAL statement_timeout = '5s'"
"""For planning a condition, because planning runs functions that are declared immutable."""
_PLAN_ANSWER_S, _PLANS_S = 6.0, 10.0
"""Seconds to wait for one condition's plan, and for the plans of all tables measured together."""
_REMEMBERED = 1_000
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
_PAGES: LiteralString = (
    "SELECT max(pg_relation_size(relid)) / current_setting('block_size')::bigint"
    " FROM (SELECT %s::oid UNION ALL SELECT relid FROM pg_partition_tree(%s) WHERE isleaf) AS t (relid)"
)


@dataclass(frozen=True, slots=True)
class _Measuring:
    """What is known of tables that are measured together, and how long to wait for writers."""

    looked: CatalogAnswer
    sizes: Mapping[int, tuple[int, float]]
    until_s: float
    bounded: bool
    plan_until_s: float = math.inf


def _refuse_other_key(read: ReadTable, bound: Key) -> None:
    """Raise SchemaChanged if a bound has more or fewer columns than the table's key has now."""
    if len(bound) != len(read.keyset.columns):
        raise SchemaChanged("its key was changed", place=read.table.id)


class PostgresTables:
    """Reads keys through one connection, which only the job's thread uses.

    `plan_on` opens other connections, on which conditions are planned; its argument is how many seconds an
    answer may take.
    """

    def __init__(
        self,
        connection: psycopg.Connection,
        publication: Publication,
        readable: Readable,
        clock: Clock,
        *,
        whole_bytes: int | None = None,
        plan_on: Callable[[float], psycopg.Connection] | None = None,
    ) -> None:
        self._connection, self._publication, self._readable = connection, publication, readable
        self._clock = clock
        self._plan_on, self._planner = plan_on, connection
        self._too_long: dict[str, None] = {}
        self._whole_bytes = _WHOLE_BYTES if whole_bytes is None else whole_bytes
        self._row_bytes: dict[CollectionId, float] = {}
        self.ids: dict[int, CollectionId] = {}
        """The tables that were looked up, by oid."""
        self._writers = Writers(connection, clock)
        self.partitions = Partitions(connection)

    def note_published(self, saved: Mapping[str, Any] | None) -> PublishedTables:
        """Record which tables are published now; returns what to save. `saved` is the last record."""
        marks = self._publication.marks(self._connection)
        with source_errors("asking for the next transaction id"):
            row = self._connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchone()
        noted = PublishedTables.now(marks, int(row[0]) if row else 0, saved)
        self._writers = Writers(self._connection, self._clock, noted)
        return noted

    def captured(self) -> Sequence[CollectionId]:
        """The tables whose changes are captured."""
        return self._publication.captured(self._connection)

    def groups(self) -> Mapping[CollectionId, Sequence[CollectionId]]:
        """Partitioned tables whose partitions are captured under their own names."""
        return self._publication.groups(self._connection)

    def measure(
        self, targets: Sequence[Target], *, bounded: bool = False
    ) -> list[Extent | SignalError | TableBusy]:
        """The extent of each table, or why it can't be read, now or at all."""
        looked = self._looked_up(targets)
        sizes = self._sizes([table.oid for table in looked.tables.values()])
        measuring = _Measuring(
            looked, sizes, patience(self._clock), bounded, self._clock.monotonic() + _PLANS_S
        )
        try:
            return [self._judged(target, measuring) for target in targets]
        finally:
            self._end_planning()

    def _looked_up(self, targets: Sequence[Target], *, defaults: bool = False) -> CatalogAnswer:
        names = list(dict.fromkeys(target.collection for target in targets))
        looked = self._readable.looked_up(names, defaults=defaults)
        self.ids |= {table.oid: name for name, table in looked.tables.items()}
        self.partitions.note(looked)
        return looked

    def _judged(self, target: Target, measuring: _Measuring) -> Extent | SignalError | TableBusy:
        try:
            with table_errors("measuring the table", target.collection):
                return self._measured(target, measuring)
        except (SignalError, TableBusy) as error:
            return error
        except SchemaChanged as error:
            return error.recast(SignalError)

    def row_bytes(self, target: Target) -> float:
        """The estimated size of a row, from the last measurement."""
        return self._row_bytes.get(target.collection, 1000.0)

    def _sizes(self, oids: Sequence[int]) -> dict[int, tuple[int, float]]:
        """Bytes and estimated rows, by oid; -1 rows if the table was never analysed.

        Where a table is locked, this uses the page counts last recorded in the catalog.
        """
        with source_errors("measuring tables"):
            try:
                rows = self._connection.execute(_SIZES.format(size=_SIZE_NOW), [list(oids)]).fetchall()
            except psycopg.errors.LockNotAvailable:
                rows = self._connection.execute(_SIZES.format(size=_SIZE_NOTED), [list(oids)]).fetchall()
        return {oid: (size, tuples) for oid, size, tuples in rows}

    def _measured(self, target: Target, measuring: _Measuring) -> Extent:
        read = self._readable.reading(target, measuring.looked)
        if not target.initial:
            self._readable.check_operations(read.table)
        if not (target.initial and self._readable.held):
            self.await_writers(read, measuring.until_s)
        self._check_condition(read, target, measuring.plan_until_s)
        size, tuples = measuring.sizes.get(read.table.oid, (0, -1.0))
        rows = self._estimated_rows(read) if tuples <= 0 and size else int(max(tuples, 0))
        self._row_bytes[target.collection] = size / max(rows, 1)
        key = read.fingerprint
        small = size <= self._whole_bytes and not measuring.bounded
        if small or not self._divisible(read):
            self._probe(read)
            # What can't be cut counts as having 0 rows, so that splitting after a fault ends.
            return Extent(0 if measuring.bounded else rows, size, whole=True, key=key)
        if read.keyset == PLACES:
            return Extent(rows, size, greatest=self._last_place(read), key=key)
        # Rows from before the log may be visible only in the slot's own snapshot.
        held = self._readable.held_session if target.initial else None
        greatest = self._edge(read, read.keyset.reverse_order, session=held)
        size = max(size, int(rows * self._sampled_bytes(read)))
        self._row_bytes[target.collection] = size / max(rows, 1)
        span = self._span(read, greatest, rows, held)
        return Extent(rows, size, greatest=greatest, span=span, key=key)

    def _sampled_bytes(self, read: ReadTable) -> float:
        """The average size of the last rows' text; the table's size is too small where rows compress well."""
        row = self._connection.execute(
            f"SELECT coalesce(avg(octet_length(r::text)), 0)::float8 FROM (SELECT * FROM {read.relation}"
            f" ORDER BY {read.keyset.reverse_order} LIMIT {_SAMPLED}) AS r".encode()
        ).fetchone()
        return float(row[0]) if row else 0.0

    def _divisible(self, read: ReadTable) -> bool:
        """Whether a table's rows and their places stay the same from one query to the next."""
        if read.statement is not None:
            # With a limit, each query might return other rows.
            plan = str(self._plan(read))
            return "'Node Type': 'Limit'" not in plan and read.keyset != PLACES
        return read.keyset != PLACES or self._readable.held

    def _last_place(self, read: ReadTable) -> Key:
        """The place after the last row of a table, or of its largest partition."""
        row = self._connection.execute(_PAGES, [read.table.oid, read.table.oid]).fetchone()
        return place_of(int(row[0]) if row else 0)

    def await_writers(self, read: ReadTable, until_s: float = 0.0) -> None:
        """Raise TableBusy while a transaction may hold changes from before the table was published."""
        try:
            self._writers.wait(read.table.oid, read.mark, read.table.id, until_s)
        except TableBusy as error:
            accepted = self._readable.accepts_risk(read.table.id)
            said = f"{error.message}; {RISK_TAKEN}, so it is read all the same" if accepted else error.message
            self._readable.warn(read.table.id, said)
            if not accepted:
                raise

    def _probe(self, read: ReadTable) -> None:
        """Check that the role may read the table, without reading it."""
        self._connection.execute(f"EXPLAIN SELECT FROM {read.relation}".encode())

    def _check_condition(self, read: ReadTable, target: Target, until_s: float) -> None:
        """Have the server plan the signal's condition, and refuse it now if that fails."""
        if read.condition is None:
            return
        place = target.collection
        if read.condition in self._too_long:
            raise _takes_too_long(place)
        if self._clock.monotonic() > until_s:
            raise TableBusy("planning the conditions of others has taken its time", place=place)
        query = f"EXPLAIN SELECT FROM {read.relation} WHERE ({read.condition}\n)"
        planner = self._planning()
        try:
            with planner.transaction():
                planner.execute(_PLANNING)
                # Prepared: the extended protocol accepts only one statement.
                planner.execute(query.encode(), prepare=True)
        except (psycopg.errors.ConnectionTimeout, psycopg.errors.QueryCanceled) as error:
            # The planner evaluates constant arithmetic at once and ignores timeouts, so we stop waiting for
            # it.
            if len(self._too_long) >= _REMEMBERED:
                self._too_long.clear()
            self._too_long[read.condition] = None
            raise _takes_too_long(place) from error
        except _REFUSALS as error:
            raise SignalError(
                f"the condition is refused: {condition_refused(error.sqlstate, type(error).__name__)}",
                place=place,
                hint="EXPLAIN a SELECT with this condition says more",
            ) from error

    def _planning(self) -> psycopg.Connection:
        """The connection that plans conditions."""
        if self._plan_on is not None and (self._planner is self._connection or self._planner.closed):
            self._planner = self._plan_on(_PLAN_ANSWER_S)
        return self._planner

    def _end_planning(self) -> None:
        if self._planner is not self._connection:
            self._planner.close()
            self._planner = self._connection

    def readings(self, targets: Sequence[Target]) -> dict[Target, ReadTable]:
        """How to read each target now. Raises SchemaChanged if one can't be read any more."""
        looked = self._looked_up(targets, defaults=True)
        return {target: self._read(target, looked) for target in targets}

    def _read(self, target: Target, looked: CatalogAnswer) -> ReadTable:
        try:
            return self._readable.reading(target, looked)
        except SignalError as error:
            raise error.recast(SchemaChanged) from error

    def _edge(
        self,
        read: ReadTable,
        order: str,
        where: str = "true",
        skipped: int = 0,
        session: psycopg.Connection | None = None,
    ) -> Key | None:
        row = (
            (session or self._connection)
            .execute(
                f"SELECT {read.keyset.texts} FROM {read.relation} WHERE {where}"
                f" ORDER BY {order} OFFSET {skipped} LIMIT 1".encode()
            )
            .fetchone()
        )
        return None if row is None else tuple(row)

    def _estimated_rows(self, read: ReadTable) -> int:
        return int(self._plan(read)["Plan Rows"])

    def _plan(self, read: ReadTable) -> dict[str, Any]:
        plan = self._connection.execute(
            f"EXPLAIN (FORMAT JSON) SELECT FROM {read.relation}".encode()
        ).fetchone()
        if plan is None:
            raise SourceError("the server gave no plan", place=read.table.id)
        found: dict[str, Any] = plan[0][0]["Plan"]
        return found

    def _span(
        self, read: ReadTable, greatest: Key | None, rows: int, session: psycopg.Connection | None
    ) -> tuple[int, int] | None:
        """The least and greatest value of a single integer key, if it is dense enough."""
        columns = read.keyset.columns
        if greatest is None or len(columns) != 1 or columns[0].type not in _INTEGERS or columns[0].nullable:
            return None
        least = self._edge(read, read.keyset.order, session=session)
        if least is None or least[0] is None or greatest[0] is None:
            return None
        low, high = int(least[0]), int(greatest[0])
        return (low, high) if rows >= _DENSE * (high - low + 1) else None

    def boundaries(
        self, target: Target, after: Key | None, upto: Key, step_rows: int, count: int
    ) -> list[Key]:
        """The keys at every `step_rows` rows between `after` and `upto`, each found from the previous one.

        Raises SchemaChanged if the table has another key by now.
        """
        read = self._read(target, self._looked_up([target]))
        _refuse_other_key(read, upto)
        if read.keyset == PLACES:
            return places(after, upto, step_rows * self.row_bytes(target), count)
        found: list[Key] = []
        with table_errors("finding chunk boundaries", target.collection), self._connection.transaction():
            # If an index has the order, a plan that sorts the rest of the table is never better.
            self._connection.execute("SET LOCAL enable_sort = off")
            self._connection.execute("SET LOCAL enable_seqscan = off")
            while len(found) < count:
                after = self._step(read, after, upto, step_rows)
                if after is None or after == upto:
                    break
                found.append(after)
        return found

    def _step(self, read: ReadTable, after: Key | None, upto: Key, rows: int) -> Key | None:
        """The key `rows` rows after `after`, or the last one before the NULLs; None after the last."""
        keyset = read.keyset
        *before, last = keyset.stretches(after, upto)
        for where in before:
            found = self._edge(read, keyset.order, where, rows - 1)
            found = found or self._edge(read, keyset.reverse_order, where)
            if found is not None:
                return found
        return self._edge(read, keyset.order, last, rows - 1)


def _takes_too_long(place: CollectionId) -> SignalError:
    return SignalError(
        "the condition is refused: the server takes too long to plan it",
        place=place,
        hint="leave out arithmetic of constants",
    )
