"""SQL Server's throughput on the stand-in: change tables streamed, and a table read beside a slow capture.

The stand-in is PostgreSQL, so the figures are those of the engine and the adapter, not of SQL Server, and no
stream is faster than the stand-in answers the same queries to a client that throws the rows away: that is the
limit beside it. A snapshot is compared with one 1,024-row chunk for each round trip of the log.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adapters.source.assembly.supplied import Onlookers
from adapters.sqlserver.job import job_of
from engine.config import parse
from tests.driven import started
from tests.driven_sqlserver import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession
    from sqlalchemy import Engine

    from adapters.sqlserver.server.connection import Jdbc, Reach
    from engine.job.loop import Job
    from tests.servers.sqlserver import SqlServer, StandInDatabase

_CHUNK_ROWS = 1024
_CHUNKS = 3
_AT_ONCE = 5_000
_WARM_ROWS = 60_000
_TABLE = (
    "CREATE TABLE dbo.{} (id int PRIMARY KEY, first_name nvarchar(50) NULL, last_name nvarchar(50) NULL,"
    " email varchar(100) NULL, visits int NULL, price decimal(12, 2) NULL, created datetime2(3) NULL,"
    " active bit NULL, big bigint NULL, ref varchar(36) NULL, street nvarchar(80) NULL, zip char(5) NULL)"
)
_ROWS = (
    "INSERT INTO dbo.{} SELECT n, 'Anne' || n, 'Kretchmar', 'annek' || n || '@noanswer.org', n % 100,"
    " n / 100.0, ('2024-01-01'::timestamp + n * interval '1 second')::text::mssql.datetime2_3,"
    " (n % 2)::smallint, n::bigint * 1000, md5(n::text), 'Main ' || n, lpad((n % 99999)::text, 5, '0')"
    " FROM generate_series({}, {}) AS n"
)


@dataclass(frozen=True, slots=True)
class NotedReach:
    """A `Reach` that keeps the queries Spark was given, as the stand-in takes them."""

    behind: Reach
    queries: list[str] = field(default_factory=list)

    def engine(self, database: str) -> Engine:
        """The engine of the one behind."""
        return self.behind.engine(database)

    def jdbc(self, database: str, query: str, session: Sequence[str] = ()) -> Jdbc:
        """What the one behind gives; notes the query."""
        jdbc = self.behind.jdbc(database, query, session)
        self.queries.append(jdbc.query)
        return jdbc


@dataclass(frozen=True, slots=True)
class SqlServerBench:
    """The stand-in, a Spark session and a directory."""

    server: SqlServer
    spark: SparkSession
    directory: Path

    def warm(self) -> None:
        """Start workers, and compile what Spark compiles."""
        self.stream(_WARM_ROWS)

    def stream(self, rows: int) -> dict[str, Any]:
        """Change rows/s of one table's inserts into the null sink, everything captured before."""
        database = self._database()
        _make(database, "t")
        reach = NotedReach(self.server.reach)
        with self._job([], reach, snapshot="schema_only") as (job, events):
            job.turn()
            reach.queries.clear()
            for first in range(0, rows, _AT_ONCE):
                _fill(database, "t", first, min(rows, first + _AT_ONCE))
            database.capture()
            with database.postgres.connect(database.name, autocommit=True) as connection:
                connection.execute("VACUUM ANALYZE")
            begun, before = time.monotonic(), sum(events)
            while sum(events) - before < rows:
                job.turn()
            per_s = rows / (time.monotonic() - begun)
        limit_per_s = rows / self._answering_s(database, reach.queries)
        return {
            "bench": "sqlserver-stream",
            "rows": rows,
            "sink": "null",
            "per_s": round(per_s),
            "limit_per_s": round(limit_per_s),
            "ratio": round(per_s / limit_per_s, 3),
        }

    def _answering_s(self, database: StandInDatabase, queries: Sequence[str]) -> float:
        """Seconds in which the stand-in answers queries, as many at once as Spark has tasks."""

        def answer(query: str) -> None:
            with (
                database.postgres.connect(database.name) as connection,
                connection.cursor() as cursor,
                cursor.copy(f"COPY ({query}) TO STDOUT".encode()) as rows,
            ):
                for _chunk in rows:
                    pass

        begun = time.monotonic()
        with ThreadPoolExecutor(self.spark.sparkContext.defaultParallelism) as pool:
            list(pool.map(answer, queries))
        return time.monotonic() - begun

    def snapshot(self, rows: int, delay_s: float) -> dict[str, Any]:
        """Rows/s of an incremental snapshot, the capture job running every so often, and of single chunks."""
        single = self._snapshot(_CHUNKS * _CHUNK_ROWS, delay_s, {"tidemark.window.max.chunks": "1"})
        ours = self._snapshot(rows, delay_s, {})
        return {
            "bench": "sqlserver-snapshot",
            "rows": rows,
            "sink": "null",
            "capture_delay_s": delay_s,
            "per_s": round(ours),
            "single_chunks_per_s": round(single),
            "ratio": round(ours / single, 1),
        }

    def _snapshot(self, rows: int, delay_s: float, more: dict[str, str]) -> float:
        database = self._database()
        database.execute(_TABLE.format("t"))
        _fill(database, "t", 0, rows)
        database.enable_cdc("dbo.t")
        answers: list[Any] = []
        self.server.start_capture(delay_s)
        with self._job(answers, self.server.reach, snapshot="schema_only", **more) as (job, _events):
            data = '{"data-collections": ["bench.dbo.t"], "type": "incremental"}'
            database.execute(f"INSERT INTO dbo.signals VALUES ('bench', 'execute-snapshot', '{data}')")
            while not answers:
                job.turn()
            begun = time.monotonic()
            while not any(answer.outcome == "finished" for answer in answers):
                job.turn()
            elapsed_s = time.monotonic() - begun
        self.server.stop_capture()
        return rows / elapsed_s

    def _database(self) -> StandInDatabase:
        self.server.reset()
        database = self.server.create_database("bench")
        database.execute(SIGNALS)
        database.enable_cdc("dbo.signals")
        return database

    @contextmanager
    def _job(
        self, answers: list[Any], reach: Reach, *, snapshot: str, **more: str
    ) -> Iterator[tuple[Job, list[int]]]:
        events: list[int] = []
        settings = parse(
            {
                **self.server.properties("bench"),
                "snapshot.mode": snapshot,
                "poll.interval.ms": "500",
                "signal.data.collection": "bench.dbo.signals",
                "include.schema.changes": "false",
                "tidemark.sink": "null",
                "tidemark.checkpoint": str(self.directory / f"state-{time.monotonic_ns()}"),
                "key.converter.schemas.enable": "false",
                "value.converter.schemas.enable": "false",
                **more,
            }
        )
        onlookers = Onlookers(observe=lambda turn: events.append(turn.events), answer=answers.append)
        with started(job_of(lambda _settings: reach).building(settings, self.spark, onlookers)) as job:
            yield job, events


def _make(database: StandInDatabase, table: str) -> None:
    database.execute(_TABLE.format(table))
    database.enable_cdc(f"dbo.{table}")


def _fill(database: StandInDatabase, table: str, first: int, end: int) -> None:
    """Rows by PostgreSQL's own means: the stand-in's way takes longer than what is measured."""
    with database.postgres.connect(database.name) as connection:
        connection.execute(_ROWS.format(table, first, end - 1).encode())
