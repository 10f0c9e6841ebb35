"""How soon a pause and a stop are obeyed inside a window of a large table.

`python -m tests.bench.obeyed [ROWS] [ROUNDS]` snapshots a table of 10,000,000 rows into the null sink. Each
round pauses while a window is read, resumes, and stops while a window is read. Counted are the seconds from
the signal's commit in the signal table to its answer, and until no window is open any more.
"""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from adapters.spark.session import POSTGRES_JDBC, spark_session
from tests.driven import SIGNAL_TABLE, Driven, driven
from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    from tests.servers.postgres import Database

_ROWS = 10_000_000
_ROUNDS = 5
_LONGEST_S = 300.0
_QUIET_S = 1.0
_MOST_S = 2.0


class Operator:
    """Sends signals to a job, and turns it until they are obeyed."""

    def __init__(self, database: Database, job: Driven) -> None:
        self._database, self._job = database, job
        self._numbers = count(1)

    def send(self, kind: str) -> float:
        """Commit a signal; returns when."""
        data = orjson.dumps({"type": "incremental", "data-collections": ["public.large"]}).decode()
        with self._database.connect() as connection:
            row = [f"{kind}-{next(self._numbers)}", kind, data]
            connection.execute("INSERT INTO signals VALUES (%s, %s, %s)", row)
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
        return answered_s - begun_s, last_s - begun_s

    def _sent(self) -> int:
        """The rows sent of what is in the queue."""
        tables = self._job.job.state.snapshot.tables
        return sum(table.progress.rows for table in tables if table.progress)


def main(rows: int = _ROWS, rounds: int = _ROUNDS) -> int:
    """Print a line for each round and the slowest; the exit code says whether all were soon enough."""
    spark = spark_session("local[2]", {}, (POSTGRES_JDBC,))
    slowest = 0.0
    with tempfile.TemporaryDirectory(prefix="tidemark-obeyed-") as place, PostgresServer() as server:
        database = server.create_database("obeyed")
        with database.connect() as connection:
            connection.execute(SIGNAL_TABLE)
            connection.execute("CREATE TABLE large (id bigint PRIMARY KEY, a int, b text)")
            insert = f"INSERT INTO large SELECT g, g % 7, 'row ' || g FROM generate_series(1, {rows}) g"
            connection.execute(insert.encode())
        with driven(database, Path(place), spark, tidemark__sink="null") as job:
            operator = Operator(database, job)
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
    print(orjson.dumps({"bench": "obeyed", "rows": rows, "slowest_s": round(slowest, 3)}).decode())
    spark.stop()
    return int(slowest > _MOST_S)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
