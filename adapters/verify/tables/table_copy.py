"""The tables of the sink `jdbc` as copies: their present rows, and the turn in which each was last touched.

A table has no history. But the sink knows in which turn it has last written or deleted a row since a
verification began (`adapters/jdbc/touched_keys.py`), and its table of turns says how far the target is. So a
row is taken as one event of that turn, or of turn 0, and a key without a row as its delete. `comparison.py`
then decides as it does for events: a row touched after its window counts as changed, all others are as they
were in the turn of their window. What an earlier comparison of the same verification has found stays known.

    target, at turn `upto`      row a           row b        (c is gone)
    touched since it began      never           turn 7       turn 9
    taken as                    event of 0      of 7         delete of 9

The target is read in one snapshot, which is taken between turns, and whose table of turns must say `upto`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import orjson
import pyarrow as pa

from adapters.jdbc.connection import Target
from adapters.jdbc.digests import Shape, Snapshot, StagedDigests, digested_keys, field_of, shape_of
from adapters.jdbc.parts import Removal
from adapters.jdbc.statements import identifier, types_of
from adapters.jdbc.table import naming
from adapters.lake.row_columns import columns_of
from adapters.lake.table_name import CollectionTables
from adapters.verify.failures import as_source_errors
from adapters.verify.partitions import write_files
from adapters.verify.tables.known_tables import KnownTable, KnownTables
from adapters.verify.tables.table_comparison import Ends, StaleComparison, TableComparison, Work, held_rows
from engine.errors import SourceError
from engine.staging.rows import MERGE_KEY
from engine.verify.compared_digests import DIGEST
from engine.verify.comparison import COPIED
from engine.verify.copy import TouchedKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from psycopg import Connection

    from adapters.jdbc.sink import JdbcSink
    from adapters.lake.table_name import TableName
    from adapters.verify.tables.table_comparison import Keys, Scan
    from engine.model import CollectionId
    from engine.ports.executors import Executors
    from engine.verify.copy import ComparisonRequest, ExtraRow, SeenRows, Span

_LEAST: Final = 140_000
"""PostgreSQL 14: before it, a range of blocks takes a scan of the whole table."""
_TURN: Final = "SELECT turn FROM tidemark_turns WHERE job = %s"


@dataclass(slots=True)
class _Table(KnownTable):
    """What is known of a topic's table: what is compared of it, and the keys that only it has, too."""

    shape: Shape | None = None
    digests: StagedDigests | None = None
    extra: Keys = field(default_factory=dict)

    def learn(self, extra: Keys, scan: Scan) -> None:
        """Keep the keys of rows that only the target has, and the scan.

        A comparison that deletes nothing leaves the keys to the repair that may go on beside it.
        """
        self.extra = extra or self.extra
        self.scans.add(scan)

    def forget(self) -> None:
        """Nothing that was found until now can be compared with what is read from now on."""
        KnownTable.forget(self)
        self.shape = self.digests = None


class TableCopy:
    """Implements `Copy` and `HoldsRows` for the tables of a sink. What is compared waits below `work`.

    `database` is the source's, for collections whose names don't have it.
    """

    def __init__(self, sink: JdbcSink, work: str, executors: Executors, database: str) -> None:
        self._sink, self._work, self._executors = sink, work, executors
        names = CollectionTables(naming(sink.database.table_format), database)
        self._target = Target(sink.database, f"tidemark verify {sha256(sink.job.encode()).hexdigest()[:16]}")
        self._tables = KnownTables(names, sink.touched, _Table)
        self._session: Connection | None = None
        self._numbers = self._compared = 0

    def follow(self, topics: Collection[str], turn: int) -> None:  # noqa: ARG002
        """Have the sink note which keys it touches."""
        self._tables.follow(topics)
        if not topics:
            self._target.close()

    def refusal(self) -> str:
        """None: tables can be compared."""
        return ""

    def learn(self, topic: str, captured: Mapping[str, CollectionId]) -> str:
        """Learn the name of a topic's table. Another topic may have the same one."""
        return self._tables.learn(topic, captured)

    def digested(self, rows: pa.Table) -> pa.Table:
        """Copy the rows into the target's form, and digest them there."""
        topic = (rows.schema.metadata or {}).get(b"topic", b"").decode()
        found: list[pa.Table] = []
        with as_source_errors(), self._target.connection() as connection:
            for batch in rows.to_batches():
                if batch.num_rows:
                    digests = self._digests(connection, topic, batch)
                    # Of a table whose columns have changed nothing is compared: all will be read again.
                    none = pa.repeat(pa.scalar(bytes(DIGEST.byte_width), DIGEST), batch.num_rows)
                    keys, shown = digests.rows(batch, columns_of(batch)) if digests else (none, none)
                    merge_keys = batch.column(MERGE_KEY.name)
                    found.append(pa.table([keys, shown, merge_keys], ["key", "row", "merge_key"]))
        empty = pa.schema([("key", DIGEST), ("row", DIGEST), MERGE_KEY]).empty_table()
        return pa.concat_tables(found) if found else empty

    def _digests(self, connection: Connection, topic: str, batch: pa.RecordBatch) -> StagedDigests | None:
        """What digests the rows of a topic, of which this is a batch; None if its columns have changed."""
        table, columns = self._tables.read(topic, batch)
        if table.changed:
            return None
        if table.columns is None:
            table.columns, table.digests = columns, None
            table.shape = shape_of(connection, table.name, columns)
        return self._session_digests(connection, table)

    def _session_digests(self, connection: Connection, table: _Table) -> StagedDigests:
        """The session's temporary table for a topic, made if it has none yet."""
        if self._session is not connection:
            self._session = connection
            for other in self._tables.values():
                other.digests = None
        if table.digests is None:
            if table.shape is None:
                raise SourceError("its columns are not known", where=str(table.name))
            self._numbers += 1
            table.digests = StagedDigests(connection, table.shape, self._numbers)
        return table.digests

    def compare(
        self, topic: str, seen: tuple[SeenRows, int], asked: ComparisonRequest
    ) -> TableComparison | StaleComparison:
        """Take the snapshot of the target, which must be at the job's turn, and compare in a thread."""
        rows, ticket = seen
        table = self._tables[topic]
        target = Target(self._sink.database, f"tidemark compare {ticket}")
        with as_source_errors(), target.connection() as connection:
            if connection.info.server_version < _LEAST:
                raise SourceError("the target is older than PostgreSQL 14", where=target.address)
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            row = connection.execute(_TURN, [self._sink.job]).fetchone()
            if row is None or row[0] != asked.span.upto:
                turn = None if row is None else row[0]
                raise SourceError(
                    f"the target is at turn {turn}, the job at {asked.span.upto}", where=target.address
                )
            if table.shape is None:
                table.shape = _bare_shape(connection, table.name, self._sink.touched.key(topic))
            stale = not table.shape.is_of(types_of(connection, table.name))
        stale |= table.changed or self._sink.touched.last_truncate(topic) > asked.span.since
        if stale:
            table.forget()
            target.close()
            return StaleComparison()
        self._compared += 1
        table.scans.begin((ticket, asked.span.since))
        directory = f"{self._work}/{ticket}-{self._compared}"
        work = Work(directory, rows.path(ticket), rows.written(ticket).rows, table.scans.all)
        held = _HeldRows(Snapshot(target, table.shape))
        ends = Ends(held, partial(self._touched, topic, table.shape), table.learn)
        return TableComparison(work, ends, self._executors, asked)

    def _touched(self, topic: str, shape: Shape, upto: int) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
        target = Target(self._sink.database, "tidemark compare keys")
        return digested_keys(target, shape, self._sink.touched.since(topic, -1, upto))

    def touched_keys(self, topic: str, span: Span) -> TouchedKeys:
        """The keys that the sink has noted."""
        keys: set[bytes] = set()
        truncated = self._sink.touched.last_truncate(topic) > span.since
        with as_source_errors(), self._target.connection() as connection:
            digests = self._session_digests(connection, self._tables[topic])
            for batch in self._sink.touched.since(topic, span.since, span.upto):
                if not truncated:
                    keys.update(digests.keys(batch.column("key")).to_pylist())
        return TouchedKeys(frozenset(keys), span.upto, truncated)

    def rows(self, topic: str, extra: Sequence[ExtraRow]) -> list[tuple[str, str | None]]:
        """The keys as JSON; rows are not looked up."""
        found = self._tables[topic].extra
        return [(orjson.dumps(found[row.key]).decode(), None) for row in extra]

    def deletes(self, topic: str, extra: Sequence[ExtraRow]) -> pa.RecordBatch:
        """The keys to delete, as the target writes them."""
        table = self._tables[topic]
        if table.shape is None:
            raise SourceError("its columns are not known", where=str(table.name))
        fields = [field_of(table.extra[row.key]) for row in extra if row.key in table.extra]
        return Removal(table.name, table.shape.key, pa.array(fields, pa.large_string())).batch


class _HeldRows:
    """Implements `TargetRows` with a snapshot that was taken at the turn of the comparison."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.size, self.cancel, self.close = snapshot.size, snapshot.cancel, snapshot.close

    def ready(self, upto: int, moments: object) -> int:  # noqa: ARG002  nothing is waited for
        """It is as of this turn."""
        return upto

    def sorted(
        self, into: str, partitions: int, while_wanted: Callable[[Iterable[pa.Table]], Iterator[pa.Table]]
    ) -> list[str]:
        """Read range by range."""
        read = (held_rows(rows.keys, rows.rows, rows.blocks, rows.items) for rows in self._snapshot.rows())
        return write_files(while_wanted(read), into, COPIED, partitions)

    def keys(self, extra: Sequence[ExtraRow]) -> Keys:
        """Look the rows up where they stand."""
        return self._snapshot.keys_at([(row.part, row.offset) for row in extra])


def _bare_shape(connection: Connection, name: TableName, key: tuple[str, ...]) -> Shape:
    """The shape of a table of which windows have read no row: only its keys count.

    `key` has the columns by which the sink has written rows; none if it has written none.
    """
    found = types_of(connection, name)
    key = key or _unique(connection, name)
    if found and not key:
        raise SourceError("the target's table has no unique index", where=str(name))
    types = {column: found[column] for column in key if column in found}
    return Shape(name, key, types, frozenset(types))


def _unique(connection: Connection, name: TableName) -> tuple[str, ...]:
    """The columns of the primary key, or of another unique index."""
    rows = connection.execute(
        "SELECT ARRAY(SELECT attname::text FROM pg_attribute"
        " WHERE attrelid = indrelid AND attnum = ANY(indkey)"
        " ORDER BY array_position(indkey::int[], attnum::int))"
        " FROM pg_index WHERE indrelid = to_regclass(%s) AND indisunique AND indpred IS NULL"
        " AND indexprs IS NULL ORDER BY indisprimary DESC LIMIT 1",
        [identifier(name).as_string(connection)],
    ).fetchall()
    return tuple(rows[0][0]) if rows else ()
