"""The chunk reader: Spark's JDBC source reads runs of keys; Python tasks encode and stage them.

One Spark job reads a window (`adapters/spark/windows/jdbc_job.py`). Each task's session adopts the window's
exported snapshot and refuses to read under any other. Owns the query of a run, its session, and how much is
fetched at once. The engine decides which runs there are; `rows.py` decides how a row is written as one text
column.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from adapters.java_faults import java_faults
from adapters.postgres.conditions.trusted_sql import for_jdbc
from adapters.postgres.events.rows import row_expression
from adapters.postgres.server.session_pool import NO_IDLE_TIMEOUTS
from adapters.postgres.server.sql import quote_literal
from adapters.postgres.server.text_settings import TEXT_SETTINGS
from adapters.postgres.snapshot.local_reader import Query
from adapters.spark.failures import job_error
from adapters.spark.windows.chunk_job import staged_runs
from adapters.spark.windows.jdbc_job import JdbcJob, JdbcQuery, RunRead, fetched_at_once, read_fast, widest
from adapters.spark.windows.window_jobs import WindowJobs
from engine.config.text.references import resolve_again
from engine.errors import TidemarkError
from engine.events.values.row_form import RowMode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from adapters.postgres.server.questions.snapshots import SnapshotExport
    from adapters.postgres.snapshot.eligibility import ReadTable
    from adapters.postgres.snapshot.local_reader import LocalReader
    from adapters.spark.windows.chunk_job import RunResult
    from engine.model import CollectionId, StagedRun
    from engine.staging.rows import StagingArea

_log = logging.getLogger("adapters")
_MOST_BYTES = 32 << 20
"""No fetch of several rows may hold more, whatever their estimated size."""
_FEWER = 16
_FETCH_BOUND = "maxResultBuffer"
"""The driver's property for the most bytes of a fetch."""
_BOUND_EXCEEDED = "08S01"
"""The SQLSTATE of the driver's error then, which reading rows has for nothing else (pgjdbc 42.7)."""


@dataclass(frozen=True, slots=True)
class Jdbc:
    """How Spark reaches the server.

    At most `fetch_rows` rows are fetched at once, fewer if they are large.
    """

    url: str
    properties: Mapping[str, str] = field(repr=False)
    initial_statements: tuple[str, ...] = field(default=(), repr=False)
    fetch_rows: int = 10_240

    def full_url(self, most_bytes: int | None) -> str:
        """The URL with the properties that Spark would lose, and a bound for the bytes of a fetch.

        Spark writes property names in lower case, and the driver does not recognise those that have capitals.
        None of these properties is a secret.
        """
        spelled = {name: value for name, value in self.properties.items() if name != name.lower()}
        if most_bytes is not None:
            spelled[_FETCH_BOUND] = str(most_bytes)
        return f"{self.url}?{urlencode(spelled)}" if spelled else self.url


@dataclass(frozen=True, slots=True)
class _ReadOptions:
    """A window, its snapshot, and the most tasks to read it with."""

    window_id: str
    exported: SnapshotExport
    tasks: int


class ChunkReader:
    """Reads windows through one SparkSession."""

    def __init__(
        self,
        spark: SparkSession,
        jdbc: Jdbc,
        area: StagingArea,
        *,
        slots: Callable[[], int],
        local: LocalReader | None = None,
    ) -> None:
        self._spark, self._jdbc, self._local = spark, jdbc, local
        self.jobs = WindowJobs(spark, area, slots=slots)
        self._reached = False
        self._fetched: dict[CollectionId, int] = {}

    def read(
        self,
        window_id: str,
        reads: Sequence[RunRead[ReadTable]],
        exported: SnapshotExport,
        *,
        most_tasks: int = 0,
    ) -> list[StagedRun]:
        """Read and stage all runs, and block until that is done. Runs without rows return nothing.

        Uses at most `most_tasks` tasks; 0: as many as there are. A run whose text contains the separator is
        read again in the exact mode. Raises SourceError.
        """
        area = self.jobs.begin(window_id)
        how = _ReadOptions(window_id, exported, self.jobs.tasks_of(most_tasks))
        results = read_fast(dict(enumerate(reads)), area, RowMode.EXACT, partial(self._job, how))
        return staged_runs(results, [read.run for read in reads])

    def area(self, window_id: str) -> StagingArea:
        """Where a window's rows are staged."""
        return self.jobs.area(window_id)

    def cancel(self, window_id: str) -> None:
        """Stop reading a window, whether Spark or the driver reads it."""
        if self._local is not None:
            self._local.cancel(window_id)
        self.jobs.cancel(window_id)

    def reach(self) -> None:
        """Run a job that reads nothing, once: checks that Spark reaches the server, starts its workers."""
        if self._reached:
            return
        try:
            self._query("SELECT 0 AS task, ''::text AS r").reach(self._spark, self.jobs.tasks_of())
        except Exception as error:
            raise job_error(error, "reading rows", "spark jdbc") from error
        self._reached = True

    def _job(
        self, how: _ReadOptions, reads: Mapping[int, RunRead[ReadTable]], mode: RowMode, area: StagingArea
    ) -> list[RunResult]:
        job = JdbcJob(reads, mode, area, how.tasks)
        if self._local is not None and self._local.takes(
            (read.run.chunks, read.row_bytes) for read in reads.values()
        ):
            try:
                return self._local.read(how.window_id, _local_query(reads, mode, how.exported), job.task())
            except TidemarkError:
                raise
            except Exception as error:
                raise job_error(error, "reading rows", "driver") from error
        while True:
            fetched = self._fetched_at_once(reads)
            try:
                return job.run(self._spark, self._runs_query(job, how.exported, fetched), fetched)
            except Exception as error:
                if fetched == 1 or not _too_large(error):
                    raise job_error(error, "reading rows", "spark jdbc") from error
                self._fetch_fewer(reads, fetched)

    def _fetched_at_once(self, reads: Mapping[int, RunRead[ReadTable]]) -> int:
        """How many rows to fetch at once, by their estimated size and by earlier fetches that failed."""
        known = (self._fetched.get(read.run.target.collection) for read in reads.values())
        estimated = fetched_at_once(reads.values(), self._jdbc.fetch_rows)
        return min([estimated, *(rows for rows in known if rows is not None)])

    def _fetch_fewer(self, reads: Mapping[int, RunRead[ReadTable]], fetched: int) -> None:
        """Fetch fewer rows from now on: rows may compress well, or large rows may be clustered."""
        fewer = max(1, fetched // _FEWER)
        _log.info("%d rows at once are more than %d bytes; fetching %d", fetched, _MOST_BYTES, fewer)
        for read in reads.values():
            self._fetched[read.run.target.collection] = fewer

    def _runs_query(self, job: JdbcJob[ReadTable], exported: SnapshotExport, fetched: int) -> JdbcQuery:
        session = session_statement(exported, self._jdbc.initial_statements, unbounded=_unbounded(job.reads))
        return self._query(
            job.text(run_rows),
            most_bytes=_MOST_BYTES if fetched > 1 else None,
            fetchsize=str(fetched),
            sessionInitStatement=session,
        )

    def _query(self, text: str, *, most_bytes: int | None = None, **options: str) -> JdbcQuery:
        properties = {name: resolve_again(value) for name, value in self._jdbc.properties.items()}
        properties |= {"driver": "org.postgresql.Driver", **options}
        return JdbcQuery(self._jdbc.full_url(most_bytes), text, properties)


def run_rows(
    read: RunRead[ReadTable], index: int, task: int, mode: RowMode, spelt: Callable[[str], str] = for_jdbc
) -> str:
    """A branch of the query: the run's number, its task, and its rows as text.

    `spelt` rewrites SQL that others wrote into what the driver understands.
    """
    table, where = read.read, rows_wanted(read)
    for condition in (table.row_filter, table.condition):
        where = f"({where}) AND ({spelt(condition)}\n)" if condition else where
    expression = row_expression(read.events.shape, mode)
    return (
        f"SELECT {index} AS run, {task} AS task, {expression} AS r FROM {spelt(table.relation)} WHERE {where}"
    )


def rows_wanted(read: RunRead[ReadTable]) -> str:
    """A condition for the rows of a run that the signal's scope asks for."""
    if not read.run.keys:
        return read.where()
    # Rows that have moved may be outside of what was asked for.
    return " AND ".join(f"({condition})" for condition in (read.where(), *read.read.scoped))


def _too_large(error: Exception) -> bool:
    """Whether the driver refused a fetch for its size."""
    return any(
        fault.name.startswith("org.postgresql.") and fault.state == _BOUND_EXCEEDED
        for fault in java_faults(error)
    )


def _local_query(reads: Mapping[int, RunRead[ReadTable]], mode: RowMode, exported: SnapshotExport) -> Query:
    branches = (run_rows(read, index, 0, mode, str) for index, read in reads.items())
    session = session_statement(exported, unbounded=_unbounded(reads))
    return Query(session, " UNION ALL ".join(branches), widest(reads.values()))


def _unbounded(reads: Mapping[int, RunRead[ReadTable]]) -> bool:
    """Whether queries may take any time. Reads before the log may; for them only the settings set limits."""
    return any(read.run.target.initial for read in reads.values())


def session_statement(
    exported: SnapshotExport, initial_statements: tuple[str, ...] = (), *, unbounded: bool = False
) -> str:
    """What a reader's session runs first: adopt the snapshot, and fail unless it is the exporter's.

    With a fetch size of 0 Spark would run this in a transaction of its own and then read under another
    snapshot. The comparison turns that into an error; otherwise rows would be lost.
    """
    bound = "SET statement_timeout = 0;" if unbounded else ""
    settings = " ".join(f"SET {name} = {quote_literal(value)};" for name, value in TEXT_SETTINGS.items())
    mine = "pg_current_snapshot()::text"
    # The user's statements may run queries, and a transaction that has run a query can't adopt a snapshot.
    initial = "".join(f"{statement.rstrip(';')}; " for statement in initial_statements)
    return (
        f"{initial}{'COMMIT; ' if initial else ''}BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
        f" SET TRANSACTION SNAPSHOT {quote_literal(exported.id)}; {settings}"
        f" {NO_IDLE_TIMEOUTS}; {bound} SELECT CASE WHEN {mine} = {quote_literal(exported.text)} THEN 1"
        f" ELSE ('the reader is on snapshot ' || {mine})::int END"
    )
