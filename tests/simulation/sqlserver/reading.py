"""The log's reader and the reader of windows on a simulated SQL Server: no thread, no Spark.

Rows are read one by one in the key's order, each under its own lock: between two rows others commit. So what
a query returns is a state that there never was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adapters.spark.windows.chunk_job import staged_runs
from adapters.spark.windows.jdbc_job import JdbcJob, read_fast
from adapters.sqlserver.log.changes import RAW, StageChanges
from adapters.sqlserver.log.reader import SqlServerLog
from adapters.sqlserver.log.span_reader import ChangeReader
from adapters.staging.executor_blocks import ExecutorBlocks
from engine.errors import SchemaChanged, SourceError, TableBusy
from engine.events.values.row_form import RowMode
from tests.simulation.fallible_calls import fallible
from tests.simulation.log_steps import LogSteps
from tests.simulation.sqlserver.questions import Session
from tests.simulation.sqlserver.sql import condition
from tests.simulation.sqlserver.tables import row_text
from tests.simulation.window_chunks import WindowChunks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from adapters.spark.windows.chunk_job import RunResult
    from adapters.spark.windows.jdbc_job import RunRead
    from adapters.sqlserver.log.changes import Changes
    from adapters.sqlserver.log.reader import DatabaseLog, Span
    from adapters.sqlserver.log.span_planner import PlannedSpan
    from adapters.sqlserver.log.span_reader import ReadSpan
    from adapters.sqlserver.server.change_statements import ShareRead
    from adapters.sqlserver.server.change_tables import ChangeTables
    from adapters.sqlserver.server.table import Table
    from adapters.sqlserver.snapshot.eligibility import ReadTable
    from engine.model import Position, StagedRun
    from engine.staging.rows import StagingArea
    from tests.simulation.sqlserver.questions import SimInstance
    from tests.simulation.sqlserver.tables import SimTable, Values
    from tests.simulation.world import Life

_PATIENCE = 4
"""How often a reader looks whether a row's lock is released, before it gives up."""


class SimLog(SqlServerLog):
    """The adapter's log reader, which waits for nothing."""

    thread = LogSteps
    idle = closed = False

    @property
    def steps(self) -> LogSteps:
        """What reads."""
        steps = self._thread
        assert isinstance(steps, LogSteps)
        return steps

    def _read(self) -> None:
        if len(self._spans) >= 2 or not self._read_round():  # as many as are read ahead
            self.idle = True

    def _wait_for_room(self) -> bool:
        return len(self._spans) < 2

    def close(self) -> None:
        """End the sessions; the world may do so, too, when the job has died."""
        if not self.closed:
            self.closed = True
            super().close()


def log_opener(life: Life) -> Callable[..., SqlServerLog]:
    """What reads the logs of a job."""

    def opened(
        databases: Sequence[DatabaseLog],
        start: Position,
        poll_s: float,
        monotonic: Callable[[], float],
        told: Sequence[Span] = (),
    ) -> SqlServerLog:
        log = SimLog(databases, start, poll_s, monotonic, told)
        log.steps.log, log.steps.life = log, life
        life.log = log
        return log

    return opened


class SimReader(ChangeReader):
    """Reads spans of the change tables; what Spark would read is staged by the adapter's task."""

    _changes: Any = None

    def read(self, changes: ChangeTables, planned: PlannedSpan, tables: Mapping[str, Table]) -> ReadSpan:
        """The rows of a span."""
        self._changes = changes
        return super().read(changes, planned, tables)

    def _portion(self, told: Sequence[ShareRead], widths: Mapping[int, int]) -> Iterator[tuple[int, Changes]]:
        for stretch in sorted({share_read.task for share_read in told}):
            stage = StageChanges(self._store, f"changes-{self._new_id()}", widths)
            found = self._changes.rows(
                [notification for notification in told if notification.task == stretch]
            )
            if not found:
                continue
            _task, *columns = zip(*found, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, RAW, strict=True)]
            changes = stage([pa.RecordBatch.from_arrays(arrays, names=RAW.names)])
            if changes is not None:
                yield stretch, changes


def change_reader(life: Life) -> Callable[[str], ChangeReader]:
    """What makes the reader of a database's change tables."""
    nothing: Any = None
    store = ExecutorBlocks()
    return lambda database: SimReader(nothing, nothing, database, store, life.world.new_id)


class SimChunks(WindowChunks):
    """What reads windows, in the place of Spark."""

    def __init__(self, server: SimInstance, life: Life, area: StagingArea) -> None:
        super().__init__(life, area)
        self._server = server

    @property
    def jobs(self) -> SimChunks:
        """What has the windows' places and ends their tasks."""
        return self

    def reach(self, database: str = "") -> None:
        """There is no Spark."""

    def read(
        self,
        window_id: str,
        reads: Sequence[RunRead[ReadTable]],
        *,
        most_tasks: int = 0,  # noqa: ARG002  one reads
        session: tuple[str, ...] = (),
    ) -> list[StagedRun]:
        """Read and stage all runs, one after the other."""
        self.fail_by("failed", "busy", "login", "room")
        reading = Session(self._server, self._life)
        results = read_fast(
            dict(enumerate(reads)),
            self.area(window_id),
            RowMode.ESCAPED,
            lambda some, mode, area: self._job(
                _Query(reading, window_id, mode, versions=bool(session)), some, area
            ),
        )
        return staged_runs(results, [read.run for read in reads])

    def _job(
        self, query: _Query, reads: Mapping[int, RunRead[ReadTable]], area: StagingArea
    ) -> list[RunResult]:
        task = JdbcJob(reads, query.mode, area, 1).task()
        return list(task(self._batches(query, reads)))

    def _batches(self, query: _Query, reads: Mapping[int, RunRead[ReadTable]]) -> Iterator[pa.RecordBatch]:
        """Each run's rows. A change of the table's definition waits while they are read."""
        for index, read in reads.items():
            with fallible(self._life, "reading"):
                self.refuse_cancelled(query.window_id)
            database = query.session.database
            table = database.tables[read.read.table.id]
            if table.object_id != read.read.object_id:
                raise SchemaChanged("invalid object name", where=table.id)
            database.readers[table.id] = database.readers.get(table.id, 0) + 1
            try:
                rows = list(self._rows(query, table, read))
            finally:
                database.readers[table.id] -= 1
            texts = [row_text(row, read.read.columns, query.mode) for row in rows]
            yield pa.RecordBatch.from_arrays(
                [pa.array(texts, pa.large_string()), pa.array([index] * len(texts), pa.int32())],
                names=["r", "run"],
            )

    def _rows(self, query: _Query, table: SimTable, read: RunRead[ReadTable]) -> Iterator[Values]:
        """The rows of a run, in the key's order."""
        chooses = condition(read.where())
        if query.versions:
            found = [dict(row) for _key, row in sorted(table.committed.items()) if chooses(row)]
            yield from (self._readable(table, row) for row in found)
            return
        locks, after = read.read.hint != "NOLOCK", None
        while (key := self._next(query, table, after, locks=locks)) is not None:
            after = key
            row = table.rows.get(key)
            chosen = row if row is not None and chooses(row) else None
            if chosen is not None:
                yield self._readable(table, chosen)
            # Other things happen at every second row, and at those that are chosen of the long signal table.
            if chosen is not None if isinstance(key, str) else len(table.rows) % 2 == key % 2:
                self._life.step("row")

    def _next(self, query: _Query, table: SimTable, after: Any, *, locks: bool) -> Any:
        """The next key of a table, once nobody else has it locked; None at the end."""
        for _look in range(_PATIENCE):
            locked = {key for number, key in query.session.database.locks if number == table.object_id}
            keys = set(table.rows) | (locked if locks else set())
            key = min((key for key in keys if after is None or key > after), default=None)
            whole = table.id in query.session.database.whole
            if not locks or not (whole or key in locked):
                self._check_alive(query)
                return key
            self._life.step("row")
        raise TableBusy("lock request time out", where=table.id)

    def _check_alive(self, query: _Query) -> None:
        if not query.session.alive:
            raise SourceError("communication link failure")

    def _readable(self, table: SimTable, row: Values) -> Values:
        if (table.id, row[table.key]) in self._life.world.poisoned:
            raise SourceError("a row can't be read", where=table.id)
        return row


class _Query:
    """How a window's rows are read: by which connection, in which form, by `versions` or under locks."""

    def __init__(self, session: Session, window_id: str, mode: RowMode, *, versions: bool) -> None:
        self.session, self.window_id, self.mode, self.versions = session, window_id, mode, versions
