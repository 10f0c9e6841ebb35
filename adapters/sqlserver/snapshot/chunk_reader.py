"""The chunk reader: reads runs of keys through Spark's JDBC source; Python tasks encode and stage them.

One Spark job reads a window's runs of one database. Every run is a branch of one UNION ALL query, so that a
task can read one run of a large table or many whole small ones. Owns the query and the job. The engine
decides which runs there are; `tsql` writes a row as one text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from adapters.spark.chunk_job import RESULT_DDL, ReadTask, nothing, staged_runs
from adapters.spark.failures import job_error
from adapters.sqlserver.log.change_statements import portions
from adapters.sqlserver.server.failures import lock_waited_for
from adapters.sqlserver.snapshot import table_statements
from engine.errors import TableBusy
from engine.events.values.row_texts import RowMode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from adapters.sqlserver.log.span_reader import JdbcOf
    from adapters.sqlserver.snapshot.eligibility import ReadTable
    from engine.config.settings import SnapshotSettings
    from engine.errors import SinkError, SourceError
    from engine.model import Run, Staged
    from engine.staging.reads import ReadEvents
    from engine.staging.staged_rows import StagingArea

_FETCH_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class RunRead:
    """A run and how to read it. `row_bytes` is the estimated size of a row."""

    run: Run
    read: ReadTable
    events: ReadEvents
    row_bytes: float

    @property
    def database(self) -> str:
        """The database that it is read from."""
        return self.run.target.collection.parts[0]

    def query(self, index: int, task: int, mode: RowMode) -> str:
        """One branch of the query: the run's number, its task, and its rows as text."""
        run, read = self.run, self.read
        where = read.merge.among(run.keys) if run.keys else read.keyset.between(run.after, run.upto)
        if read.condition:
            where = f"({where}) AND ({read.condition}\n)"
        return table_statements.run_rows(read, where, mode, (index, task))


@dataclass(frozen=True, slots=True)
class _How:
    """Where rows are staged, the maximum number of tasks, and the SET statements of their sessions."""

    area: StagingArea
    tasks: int
    session: tuple[str, ...]


class ChunkReader:
    """Reads windows through one SparkSession. `tasks` run at once."""

    def __init__(
        self, spark: SparkSession, jdbc: JdbcOf, area: StagingArea, settings: SnapshotSettings, *, tasks: int
    ) -> None:
        self._spark, self._jdbc, self._area = spark, jdbc, area
        self._tasks, self._fetch_rows = tasks, settings.fetch_size
        patience_ms = settings.lock_timeout_ms
        self._patience = (f"SET LOCK_TIMEOUT {patience_ms}",) if patience_ms else ()
        self._reached: set[str] = set()

    def reach(self, database: str) -> None:
        """Run an empty query once: fails early if Spark can't reach the database, and starts the workers."""
        if database in self._reached:
            return
        try:
            frame = self._load(database, "SELECT 0 AS [task], N'' AS [r]", 1, ("1", ())).select("r")
            frame.repartition(self._tasks).mapInArrow(nothing, RESULT_DDL).collect()
        except Exception as error:
            raise job_error(error, "reading rows", database) from error
        self._reached.add(database)

    def read(
        self, window_id: str, reads: Sequence[RunRead], *, most_tasks: int = 0, session: tuple[str, ...] = ()
    ) -> list[Staged]:
        """Read and stage all runs; blocks until done. Runs without rows give nothing.

        At most `most_tasks` tasks are used (0: no limit but the reader's own); the statements of `session`
        apply to them. Raises SourceError, and TableBusy on a lock timeout. A run whose values hold the
        separator is read again, escaped.
        """
        context = self._spark.sparkContext
        context.setJobGroup(f"tidemark-{window_id}", f"window {window_id}", interruptOnCancel=True)
        tasks, session = min(most_tasks or self._tasks, self._tasks), (*self._patience, *session)
        how = _How(self._area.within(window_id), tasks, session)
        results: list[dict[str, Any]] = []
        for database in dict.fromkeys(read.database for read in reads):
            mine = {index: read for index, read in enumerate(reads) if read.database == database}
            results += self._read(mine, how)
        return staged_runs(results, [read.run for read in reads])

    def _read(self, reads: Mapping[int, RunRead], how: _How) -> list[dict[str, Any]]:
        results = self._jobs(reads, RowMode.FAST, how)
        collided = {row["run"]: reads[row["run"]] for row in results if row["collided"]}
        results = [row for row in results if not row["collided"]]
        if collided:
            again = replace(how, area=how.area.within("escaped"))
            results += self._jobs(collided, RowMode.ESCAPED, again)
        return results

    def directory(self, window_id: str) -> str:
        """The directory where a window's rows are staged."""
        return self._area.within(window_id).directory

    def cancel(self, window_id: str) -> None:
        """Stop a window's tasks."""
        # Including the job that is still being planned; PySpark has no method for that.
        context = self._spark.sparkContext._jsc.sc()  # noqa: SLF001
        context.cancelJobGroupAndFutureJobs(f"tidemark-{window_id}")

    def _jobs(self, reads: Mapping[int, RunRead], mode: RowMode, how: _How) -> list[dict[str, Any]]:
        """Read in as many jobs as needed for statements that the server can plan.

        After a lock timeout, read table by table to find the locked one: TableBusy names it.
        """
        batches = portions(list(reads.items()))
        try:
            return [row for batch in batches for row in self._job(dict(batch), mode, how)]
        except TableBusy:
            found = dict.fromkeys(read.read.table.id for read in reads.values())
            if len(found) == 1:
                raise
        tables = [{at: read for at, read in reads.items() if read.read.table.id == name} for name in found]
        return [row for table in tables for row in self._jobs(table, mode, how)]

    def _job(self, reads: Mapping[int, RunRead], mode: RowMode, how: _How) -> list[dict[str, Any]]:
        tasks = min(how.tasks, len(reads))
        alone = tuple(reads) if len(reads) <= tasks else ()
        events = {index: read.events for index, read in reads.items()}
        task = ReadTask(events, how.area, mode, alone)
        branches = [
            read.query(index, place % tasks, mode) for place, (index, read) in enumerate(reads.items())
        ]
        database = next(iter(reads.values())).database
        fetched = self._fetched(reads)
        conf = self._spark.conf
        try:
            conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(2 * fetched if fetched > 1 else 1))
            frame = self._load(database, " UNION ALL ".join(branches), tasks, (str(fetched), how.session))
            frame = frame.select("r", *([] if alone else ["run"]))
            return [row.asDict() for row in frame.mapInArrow(task, RESULT_DDL).collect()]
        except Exception as error:
            raise _failed(error, reads) from error

    def _fetched(self, reads: Mapping[int, RunRead]) -> int:
        """How many rows to fetch at once, by their estimated size."""
        widest = max(read.row_bytes for read in reads.values())
        return max(1, min(self._fetch_rows, int(_FETCH_BYTES / max(widest, 1.0))))

    def _load(self, database: str, query: str, tasks: int, how: tuple[str, tuple[str, ...]]) -> DataFrame:
        """The query's rows by tasks. `how` is the fetch size and the session's SET statements."""
        fetched, session = how
        jdbc = self._jdbc(database, query, session)
        properties = {**jdbc.properties, "driver": jdbc.driver, "fetchsize": fetched}
        predicates = [f"task = {task}" for task in range(tasks)]
        return self._spark.read.jdbc(
            jdbc.url, f"({jdbc.query}) AS q", predicates=predicates, properties=properties
        )


def _failed(error: Exception, reads: Mapping[int, RunRead]) -> SourceError | SinkError:
    """The error of a failed job. TableBusy on a lock timeout; it names the table if there is just one."""
    tables = {str(read.read.table.id) for read in reads.values()}
    database = next(iter(reads.values())).database
    said = job_error(error, "reading rows", tables.pop() if len(tables) == 1 else database)
    return TableBusy(said.message, place=said.place) if lock_waited_for(error, said.message) else said
