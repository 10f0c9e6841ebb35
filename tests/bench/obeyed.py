"""How soon a pause and a stop are obeyed inside a window of a large table.

`python -m tests.bench.obeyed [SOURCE] [ROWS] [ROUNDS]` snapshots a table of 10,000,000 rows of PostgreSQL,
the stand-in for SQL Server (`sqlserver`) or MongoDB (`mongodb`) into the null sink. Each round pauses while
a window is read, resumes, and stops while a window is read. Counted are the seconds from the signal's commit
in the signal table to its answer, and until no window is open any more.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from adapters.spark.session import POSTGRES_JDBC, SQLSERVER_JDBC, spark_session
from tests.debezium_subjects import OnMongo, OnPostgres, OnSqlServer, Subject
from tests.servers.mongodb import MongoServer
from tests.servers.postgres import PostgresServer
from tests.servers.sqlserver import SqlServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.driven import Driven

_ROWS = 10_000_000
_ROUNDS = 5
_LONGEST_S = 300.0
_QUIET_S = 1.0
_MOST_S = 2.0
_FILL = "INSERT INTO {}large SELECT g, g % 7 FROM generate_series(1, {}) g"
_BATCH = 1_000


@contextmanager
def filled(source: str, rows: int, directory: Path, spark: SparkSession) -> Iterator[Subject]:
    """A source with a table of so many rows."""
    match source:
        case "postgres":
            with PostgresServer() as server:
                subject: Subject = OnPostgres(server.create_database("obeyed"), directory, spark)
                subject.table("large", rows=0)
                subject.execute(_FILL.format("", rows))
                yield subject
        case "sqlserver":
            with SqlServer() as stand_in:
                shop = stand_in.create_database("shop")
                subject = OnSqlServer(stand_in, shop, directory, spark)
                subject.execute("CREATE TABLE dbo.large (pk int PRIMARY KEY, aa int)")
                with stand_in.postgres.connect("shop") as connection:
                    connection.execute(_FILL.format("dbo.", rows).encode())
                subject.capture("large")
                yield subject
        case _:
            with MongoServer() as mongo:
                on_mongo = OnMongo(mongo, directory, spark)
                fill_documents(mongo, rows)
                yield on_mongo


def fill_documents(server: MongoServer, rows: int) -> None:
    """Have the server itself multiply a thousandth of the documents."""
    with server.connect() as client:
        shop = client["shop"]
        shop["seeds"].insert_many([{"_id": number} for number in range(rows // _BATCH)])
        number = {"$add": [{"$multiply": ["$_id", _BATCH]}, "$n"]}
        shop["seeds"].aggregate(
            [
                {"$project": {"n": {"$range": [0, _BATCH]}}},
                {"$unwind": "$n"},
                {"$project": {"_id": number, "aa": {"$mod": ["$n", 7]}}},
                {"$out": "large"},
            ]
        )


class Operator:
    """Sends signals to a job, and turns it until they are obeyed."""

    def __init__(self, subject: Subject, job: Driven) -> None:
        self._subject, self._job = subject, job

    def send(self, kind: str) -> float:
        """Commit a signal; returns when."""
        self._subject.send(kind, "large")
        return time.monotonic()

    def read_into(self) -> None:
        """Turn until rows have been sent and a further window is being read."""
        before = self._sent()
        self._job.until(lambda: self._sent() > before and self._job.job.window is not None, _LONGEST_S)

    def obeyed_s(self, kind: str, outcome: str) -> tuple[float, float]:
        """The seconds from a signal to its answer, and until no window is read or sent."""
        answers = len(self._job.answered(outcome))
        begun_s = self.send(kind)
        self._job.until_answered(outcome, answers + 1)
        answered_s = last_s = time.monotonic()
        while time.monotonic() < last_s + _QUIET_S:
            if self._job.job.window is not None:
                last_s = time.monotonic()
            self._job.job.turn()
        return round(answered_s - begun_s, 3), round(last_s - begun_s, 3)

    def _sent(self) -> int:
        """The rows sent of what is in the queue."""
        tables = self._job.job.state.snapshot.tables
        return sum(table.progress.rows for table in tables if table.progress)


def main(source: str = "postgres", rows: int = _ROWS, rounds: int = _ROUNDS) -> int:
    """Print a line for each round and the slowest; the exit code says whether all were soon enough."""
    spark = spark_session("local[2]", {}, (POSTGRES_JDBC, SQLSERVER_JDBC))
    slowest = 0.0
    # Windows as in production, not as small as the subjects' tests want them.
    usual = {"incremental__snapshot__chunk__size": "1024", "tidemark__window__max__chunks": "0"}
    with (
        tempfile.TemporaryDirectory(prefix="tidemark-obeyed-") as place,
        filled(source, rows, Path(place), spark) as subject,
        subject.job(tidemark__sink="null", **usual) as job,
    ):
        operator = Operator(subject, job)
        for number in range(rounds):
            operator.send("execute-snapshot")
            operator.read_into()
            paused = operator.obeyed_s("pause-snapshot", "paused")
            operator.send("resume-snapshot")
            operator.read_into()
            stopped = operator.obeyed_s("stop-snapshot", "stopped")
            slowest = max(slowest, *paused, *stopped)
            line = {"round": number + 1, "paused_s": paused, "stopped_s": stopped}
            print(orjson.dumps(line).decode(), flush=True)
    found = {"bench": "obeyed", "source": source, "rows": rows, "slowest_s": round(slowest, 3)}
    print(orjson.dumps(found).decode())
    spark.stop()
    return int(slowest > _MOST_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "postgres", *map(int, sys.argv[2:])))
