"""`python -m tests.bench lake`: a replica in Delta Lake or Iceberg, beside the files sink.

Measured are rows/s of the snapshot of a table, with both sinks, until all rows are in the table; then, with
keys spread evenly over it, changes/s and the seconds from a transaction's commit until its turn is merged;
and rows and changes per CPU second of the job, which is this process with Spark.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from adapters.spark.session import POSTGRES_JDBC, spark_session
from tests.bench.processes import cpu_seconds, stats
from tests.driven import SIGNAL_TABLE, driven
from tests.lake_spark import LAKE_PACKAGES, LAKE_SESSION
from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from tests.driven import Driven
    from tests.servers.postgres import Database

_TABLE = """CREATE TABLE items (id bigint PRIMARY KEY, name text, price numeric(12, 2), amount int,
    rate double precision, at timestamp, day date, flag boolean, a text, b text, c int, d bigint)"""
_ROWS = """INSERT INTO items SELECT n, 'name ' || n, n / 4.0, n % 1000, n / 3.0,
    timestamp '2024-01-01' + n * interval '1 second', date '2024-01-01' + (n % 1000)::int, n % 2 = 0,
    md5(n::text), 'note ' || n % 100, n % 7, n * 3 FROM generate_series(1, {}) n"""
_PER_TRANSACTION = 100
_WARMING_S = 10.0
_SETTINGS = {"snapshot__mode": "initial", "skipped__operations": "none"}


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark; gives the exit code."""
    parser = argparse.ArgumentParser(prog="tests.bench lake", description=__doc__)
    parser.add_argument("--sink", choices=("delta", "iceberg"), default="delta")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=10_000, help="changes per second")
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args(arguments)
    spark = spark_session("local[2]", LAKE_SESSION, (POSTGRES_JDBC, *LAKE_PACKAGES))
    with (
        tempfile.TemporaryDirectory(prefix="tidemark-bench-") as place,
        PostgresServer(18, settings={"shared_buffers": "1GB", "max_wal_size": "16GB"}) as server,
    ):
        for line in measured(server, spark, Path(place), options):
            print(orjson.dumps(line).decode(), flush=True)
    spark.stop()
    return 0


def measured(
    server: PostgresServer, spark: SparkSession, place: Path, options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """What was measured: with each sink once to warm up."""
    for number, (sink, rows) in enumerate(
        [("files", 100_000), (options.sink, 100_000), ("files", options.rows), (options.sink, options.rows)]
    ):
        database = server.create_database(f"lake{number}")
        directory = place / str(number)
        with database.connect() as connection:
            connection.execute(SIGNAL_TABLE)
            connection.execute(_TABLE)
            connection.execute(_ROWS.format(rows))
        with driven(database, directory, spark, **_SETTINGS, **_sink(sink, directory)) as job:
            yield {**_snapshot(job, directory, rows), "sink": sink, "warming": rows != options.rows}
            if sink == "files":
                continue
            warming = rows != options.rows
            seconds = min(_WARMING_S, options.seconds) if warming else options.seconds
            writer = Writer(database, rows, options.rate, seconds)
            yield {**_changes(job, writer, directory), "sink": sink, "warming": warming}
        server.drop_database(database.name)


def _sink(sink: str, directory: Path) -> dict[str, str]:
    if sink == "files":
        return {}
    return {"tidemark__sink": sink, "tidemark__sink__lake__warehouse": str(directory / "lake")}


def _snapshot(job: Driven, directory: Path, rows: int) -> dict[str, Any]:
    begun_s, cpu_s = time.monotonic(), _spent_s()
    job.until(lambda: not job.job.state.snapshot.tables, 3600)
    sent_s = time.monotonic() - begun_s
    while _waiting(directory):
        job.job.turn()
    took_s = time.monotonic() - begun_s
    return {
        "bench": "lake-snapshot",
        "rows": rows,
        "rows_per_s": round(rows / took_s),
        "sent_rows_per_s": round(rows / sent_s),
        "rows_per_cpu_s": round(rows / (_spent_s() - cpu_s)),
        "load": os.getloadavg()[0],
    }


def _waiting(directory: Path) -> set[str]:
    return {path.name for path in (directory / "state" / "lake").glob("turn-*")}


@dataclass
class Writer:
    """Updates rows all over the table, at a rate; `commits` has the time of each commit."""

    database: Database
    rows: int
    rate: int
    seconds: float
    changes: int = 0
    done: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Write until the time is over."""
        drawn = random.Random(1)
        with self.database.connect() as connection:
            begun_s = time.monotonic()
            while (since_s := time.monotonic() - begun_s) < self.seconds:
                if self.changes > since_s * self.rate:
                    time.sleep(0.002)
                    continue
                keys = [drawn.randint(1, self.rows) for _number in range(_PER_TRANSACTION)]
                connection.execute(
                    "UPDATE items SET amount = amount + 1, b = b || '.' WHERE id = ANY(%s)", [keys]
                )
                self.changes += _PER_TRANSACTION
        self.done.set()


def _changes(job: Driven, writer: Writer, directory: Path) -> dict[str, Any]:
    thread = threading.Thread(target=writer.run)
    begun_s, cpu_s = time.monotonic(), _spent_s()
    born: dict[str, float] = {}
    ages: list[float] = []
    thread.start()
    wrote_s = 0.0
    while True:
        before_s = time.monotonic()
        job.job.turn()
        there = _waiting(directory)
        for name in there - born.keys():
            born[name] = before_s  # its events were committed about then, or a turn before
        ages += [time.monotonic() - born.pop(name) for name in born.keys() - there]
        if writer.done.is_set():
            wrote_s = wrote_s or time.monotonic() - begun_s
            if not there and time.monotonic() - begun_s > wrote_s + 2:
                break
    took_s, spent_s = time.monotonic() - begun_s, _spent_s() - cpu_s
    thread.join()
    return {
        "bench": "lake-changes",
        "rows": writer.rows,
        "changes": writer.changes,
        "written_per_s": round(writer.changes / wrote_s),
        "merged_per_s": round(writer.changes / took_s),
        "visible_p50_s": round(statistics.median(ages), 2),
        "visible_p99_s": round(sorted(ages)[len(ages) * 99 // 100], 2),
        "visible_max_s": round(max(ages), 2),
        "changes_per_cpu_s": round(writer.changes / spent_s),
        "cpu_s_per_10000_changes": round(10_000 * spent_s / writer.changes, 2),
        "load": os.getloadavg()[0],
    }


def _spent_s() -> float:
    """CPU seconds of this process and all below it but the servers."""
    return cpu_seconds(os.getpid(), {process for process in stats() if _is_server(process)})


def _is_server(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/comm").read_text().startswith("postgres")
    except OSError:
        return False
