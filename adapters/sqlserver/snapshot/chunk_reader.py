"""The chunk reader: reads runs of keys through Spark's JDBC source; Python tasks encode and stage them.

One Spark job reads a window's runs of one database (`adapters/spark/windows/jdbc_job.py`). Owns the query of
a run, and which runs share a statement. The engine decides which runs there are; `tsql` writes a row as one
text.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from adapters.spark.failures import job_error
from adapters.spark.windows.chunk_job import staged_runs
from adapters.spark.windows.jdbc_job import JdbcJob, JdbcQuery, RunRead, fetched_at_once, read_fast
from adapters.spark.windows.window_jobs import WindowJobs
from adapters.sqlserver.server import table_statements
from adapters.sqlserver.server.change_statements import portions
from adapters.sqlserver.server.failures import lock_waited_for
from engine.errors import TableBusy
from engine.events.values.row_form import RowMode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from adapters.spark.windows.chunk_job import RunResult
    from adapters.sqlserver.log.span_reader import JdbcOf
    from adapters.sqlserver.snapshot.eligibility import ReadTable
    from engine.config.settings import SnapshotSettings
    from engine.errors import TidemarkError
    from engine.model import StagedRun
    from engine.staging.rows import StagingArea


@dataclass(frozen=True, slots=True)
class _ReadOptions:
    """The maximum number of tasks, and the SET statements of their sessions."""

    tasks: int
    session: tuple[str, ...]


class ChunkReader:
    """Reads windows through one SparkSession, with as many tasks as `slots` tells."""

    def __init__(
        self,
        spark: SparkSession,
        jdbc: JdbcOf,
        area: StagingArea,
        settings: SnapshotSettings,
        *,
        slots: Callable[[], int],
    ) -> None:
        self._spark, self._jdbc, self._fetch_rows = spark, jdbc, settings.fetch_size
        self.jobs = WindowJobs(spark, area, slots=slots)
        patience_ms = settings.lock_timeout_ms
        self._patience = (f"SET LOCK_TIMEOUT {patience_ms}",) if patience_ms else ()
        self._reached: set[str] = set()

    def reach(self, database: str) -> None:
        """Run an empty query once: fails early if Spark can't reach the database, and starts the workers."""
        if database in self._reached:
            return
        try:
            self._query(database, "SELECT 0 AS [task], N'' AS [r]").reach(self._spark, self.jobs.tasks_of())
        except Exception as error:
            raise job_error(error, "reading rows", database) from error
        self._reached.add(database)

    def read(
        self,
        window_id: str,
        reads: Sequence[RunRead[ReadTable]],
        *,
        most_tasks: int = 0,
        session: tuple[str, ...] = (),
    ) -> list[StagedRun]:
        """Read and stage all runs; blocks until done. Runs without rows give nothing.

        At most `most_tasks` tasks are used (0: no limit but the reader's own); the statements of `session`
        apply to them. Raises SourceError, and TableBusy on a lock timeout. A run whose values hold the
        separator is read again, escaped.
        """
        area = self.jobs.begin(window_id)
        how = _ReadOptions(self.jobs.tasks_of(most_tasks), (*self._patience, *session))
        results: list[RunResult] = []
        for database in dict.fromkeys(_database(read) for read in reads):
            mine = {index: read for index, read in enumerate(reads) if _database(read) == database}
            results += read_fast(mine, area, RowMode.ESCAPED, partial(self._jobs, how))
        return staged_runs(results, [read.run for read in reads])

    def _jobs(
        self, how: _ReadOptions, reads: Mapping[int, RunRead[ReadTable]], mode: RowMode, area: StagingArea
    ) -> list[RunResult]:
        """Read in as many jobs as needed for statements that the server can plan.

        After a lock timeout, read table by table to find the locked one: TableBusy names it.
        """
        jobs = [JdbcJob(dict(batch), mode, area, how.tasks) for batch in portions(list(reads.items()))]
        try:
            return [result for job in jobs for result in self._job(job, how)]
        except TableBusy:
            found = dict.fromkeys(read.read.table.id for read in reads.values())
            if len(found) == 1:
                raise
        tables = [{at: read for at, read in reads.items() if read.read.table.id == name} for name in found]
        return [result for table in tables for result in self._jobs(how, table, mode, area)]

    def _job(self, job: JdbcJob[ReadTable], how: _ReadOptions) -> list[RunResult]:
        database = _database(next(iter(job.reads.values())))
        fetched = fetched_at_once(job.reads.values(), self._fetch_rows)
        try:
            return job.run(
                self._spark, self._query(database, job.text(run_rows), fetched, how.session), fetched
            )
        except Exception as error:
            raise _failed(error, job.reads) from error

    def _query(self, database: str, text: str, fetched: int = 1, session: tuple[str, ...] = ()) -> JdbcQuery:
        jdbc = self._jdbc(database, text, session)
        properties = {**jdbc.properties, "driver": jdbc.driver, "fetchsize": str(fetched)}
        return JdbcQuery(jdbc.url, jdbc.query, properties)


def run_rows(read: RunRead[ReadTable], index: int, task: int, mode: RowMode) -> str:
    """A branch of the query: the run's number, its task, and its rows as text."""
    where, condition = read.where(), read.read.condition
    if condition:
        where = f"({where}) AND ({condition}\n)"
    return table_statements.run_rows(read.read, where, mode, (index, task))


def _database(read: RunRead[ReadTable]) -> str:
    return read.run.target.collection.parts[0]


def _failed(error: Exception, reads: Mapping[int, RunRead[ReadTable]]) -> TidemarkError:
    """The error of a failed job. TableBusy on a lock timeout; it names the table if there is just one."""
    tables = {read.read.table.id for read in reads.values()}
    database = _database(next(iter(reads.values())))
    said = job_error(error, "reading rows", tables.pop() if len(tables) == 1 else database)
    return said.recast(TableBusy) if lock_waited_for(error) else said
