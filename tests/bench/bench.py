"""A database, a warm Spark session and the job on both: what every benchmark starts from.

The job is turned by hand, so that a benchmark knows when it began and when its last event was in the
sink. Leaves what is measured to the modules beside it.
"""

from __future__ import annotations

import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson
from psycopg.errors import ObjectInUse

from adapters.postgres.job import building
from adapters.postgres.server.visibility import normalised, parse_lsn
from adapters.source.assembly.supplied import Onlookers
from adapters.spark.worker import keep_loaded
from engine.config import parse
from engine.model import Position
from signals.answers import Outcome
from tests.bench.limits import PUBLICATION
from tests.bench.tables import CUSTOMERS, SIGNALS
from tests.driven import started

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from engine.job.loop import Job
    from engine.job.reports.observation import Observation
    from signals.answers import Answer
    from tests.servers.kafka import KafkaBroker
    from tests.servers.postgres import Database, PostgresServer

SERVER_SETTINGS = {
    "shared_buffers": "1GB",
    "max_wal_size": "16GB",
    "autovacuum": "off",
    "wal_buffers": "16MB",
}
_SEGMENT_BYTES, _PAGE_BYTES = 16 << 20, 8192
_TIMEOUT_S = 1800.0


@dataclass(slots=True)
class Bench:
    """What the benchmarks of one run share; `more` are properties of its jobs."""

    database: Database
    spark: SparkSession
    directory: Path
    broker: KafkaBroker | None = None
    more: dict[str, str] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    seen: list[tuple[float, Observation]] = field(default_factory=list)

    @contextmanager
    def job(
        self,
        tables: Sequence[str],
        *,
        sink: str,
        slot: str,
        mode: str = "never",
        schemas: bool = False,
    ) -> Iterator[Job]:
        """A job over these tables, its log open; what it has seen begins anew."""
        server = self.database.server
        settings = parse(
            {
                "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
                "database.hostname": server.host,
                "database.port": str(server.port),
                "database.user": server.user,
                "database.password": server.password,
                "database.dbname": self.database.name,
                "topic.prefix": "bench",
                "plugin.name": "pgoutput",
                "slot.name": slot,
                "snapshot.mode": mode,
                "publication.name": PUBLICATION,
                "publication.autocreate.mode": "disabled",
                "table.include.list": ",".join(f"public.{table}" for table in tables),
                "signal.data.collection": f"public.{SIGNALS}",
                "key.converter.schemas.enable": str(schemas).lower(),
                "value.converter.schemas.enable": str(schemas).lower(),
                "tidemark.sink": sink,
                "tidemark.sink.files.dir": str(self.directory / f"events-{slot}"),
                "producer.bootstrap.servers": self.broker.bootstrap if self.broker else "",
                "tidemark.checkpoint": str(self.directory / f"state-{slot}"),
                **self.more,
            }
        )
        self.seen.clear()
        self.answers.clear()
        with started(building(settings, self.spark, Onlookers(self._observe, self.answers.append))) as job:
            keep_loaded()
            yield job

    def _observe(self, seen: Observation) -> None:
        self.seen.append((time.perf_counter(), seen))

    @property
    def servers(self) -> tuple[int, ...]:
        """The processes below ours that are not the job's: the database's first of all."""
        broker = self.broker._process if self.broker else None
        return (postmaster(self.database.server), *([broker.pid] if broker else []))

    def signal(self, label: str, table: str, type_: str = "incremental") -> None:
        """Ask for a snapshot, or a verification, of one table, or of all that a pattern matches."""
        data = orjson.dumps({"type": type_, "data-collections": [f"public.{table}"]}).decode()
        with self.database.connect() as connection:
            connection.execute(
                f"INSERT INTO {SIGNALS} VALUES (%s, 'execute-snapshot', %s)".encode(), [label, data]
            )

    def snapshot(self, job: Job, table: str) -> float:
        """Seconds from a signal's commit to the last READ in the sink."""
        answers = len(self.answers)
        self.signal(f"snapshot of {table}", table)
        started = time.perf_counter()
        # A pattern stands for many tables, each of which is answered.
        while len(self.answers) < answers + 2 or job.state.snapshot.tables:
            job.turn()
            _check(started)
        if self.answers[-1].outcome is not Outcome.FINISHED:
            raise AssertionError(f"the snapshot is not finished: {self.answers[-1].text}")
        return self.seen[-1][0] - started

    def initial(self, job: Job) -> float:
        """Seconds until an initial snapshot's last READ is in the sink, from now on."""
        started = time.perf_counter()
        while job.state.snapshot.tables:
            job.turn()
            _check(started)
        return self.seen[-1][0] - started

    def drain(self, job: Job, end: str) -> float:
        """Seconds until everything up to an LSN is in the sink, from now on."""
        target = Position((normalised(parse_lsn(end), _SEGMENT_BYTES, _PAGE_BYTES), 0))
        started = time.perf_counter()
        while job.state.position is None or job.state.position < target:
            job.turn()
            _check(started)
        return time.perf_counter() - started

    def create_slot(self, name: str) -> None:
        """A slot that keeps the log from here on."""
        with self.database.connect() as connection:
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])

    def drop_slot(self, name: str) -> None:
        """Drop a slot, once whoever read it has let it go, with the events and the state of its job."""
        started = time.perf_counter()
        with self.database.connect() as connection:
            while True:
                try:
                    connection.execute("SELECT pg_drop_replication_slot(%s)", [name])
                except ObjectInUse:
                    _check(started)
                    time.sleep(0.02)
                else:
                    break
        for folder in ("events", "state"):
            shutil.rmtree(self.directory / f"{folder}-{name}", ignore_errors=True)

    @contextmanager
    def slot(self, name: str, *, like: str | None = None) -> Iterator[str]:
        """A slot from here on, or from where another stands; it is dropped at the end."""
        if like is None:
            self.create_slot(name)
        else:
            with self.database.connect() as connection:
                connection.execute("SELECT pg_copy_logical_replication_slot(%s, %s)", [like, name])
        try:
            yield name
        finally:
            self.drop_slot(name)

    def end_of_log(self) -> str:
        """The present end of the log, with something behind it, so that readers pass it at once."""
        with self.database.connect() as connection:
            row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
            connection.execute("SELECT pg_logical_emit_message(true, 'bench', '')")
        assert row is not None
        return str(row[0])

    def warm(self) -> None:
        """Start workers, and compile what Spark and the broker compile: a small snapshot, a small backlog."""
        with self.slot("warm") as slot:
            with self.database.connect() as connection:
                connection.execute("INSERT INTO warm SELECT * FROM warm_more")
            with self.job(["warm"], sink="kafka" if self.broker else "null", slot=slot) as job:
                self.drain(job, self.end_of_log())
                self.snapshot(job, "warm")


def postmaster(server: PostgresServer) -> int:
    """The server's first process, which all its others are below."""
    return int((server.pgdata / "postmaster.pid").read_text().split()[0])


def _check(started: float) -> None:
    if time.perf_counter() - started > _TIMEOUT_S:
        raise TimeoutError(f"not done after {_TIMEOUT_S:g} s")


@contextmanager
def benches(
    server: PostgresServer,
    spark: SparkSession,
    directory: Path,
    *,
    broker: KafkaBroker | None = None,
    warm_rows: int = 250_000,
) -> Iterator[Bench]:
    """A fresh database, and the session warmed by some rows; the database is dropped at the end."""
    database = server.create_database("bench")
    try:
        with database.connect() as connection:
            connection.execute(f"CREATE TABLE {SIGNALS} (id varchar(64), type varchar(32), data text)")
            CUSTOMERS.create(connection, warm_rows, name="warm")
            connection.execute("CREATE TABLE warm_more AS SELECT * FROM warm")
            connection.execute("UPDATE warm_more SET id = -id")
            connection.execute(f"CREATE PUBLICATION {PUBLICATION} FOR TABLE {SIGNALS}, warm")
        bench = Bench(database, spark, directory, broker)
        bench.warm()
        yield bench
    finally:
        server.drop_database(database.name)
