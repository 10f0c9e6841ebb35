"""How a job bears a flood of signals: what it answers, and how long changes wait meanwhile.

`python -m tests.bench.flood [--signals 50000]` inserts so many `execute-snapshot` signals, a thousand a
transaction, as fast as the server takes them. The first half asks for different things, the second half for
one and the same. Signals that come too many at once are refused together, in one answer. A row is written
every 100 ms meanwhile.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import orjson

from adapters.spark.session import POSTGRES_JDBC, spark_session
from tests.driven import SIGNAL_TABLE, Driven, driven
from tests.servers.postgres import Database, PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

_A_TRANSACTION = 1_000
_EVERY_S = 0.1
_LONGEST_S = 3_600.0
_TOGETHER = re.compile(r"(\d+) signals, the last at .* are more than are taken at once")


@dataclass
class Writer:
    """Inserts a row every so often, until it is told to end."""

    database: Database
    written: list[float] = field(default_factory=list)
    """When each row was committed, by the monotonic clock; its place in the list is its key."""
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """End, after the row that is being written."""
        self._ended.set()
        self._thread.join()

    def _write(self) -> None:
        with self.database.connect() as connection:
            while not self._ended.wait(_EVERY_S):
                connection.execute("INSERT INTO written VALUES (%s)", [len(self.written)])
                self.written.append(time.monotonic())


def signals(first: int, count: int, *, equal: bool) -> Iterator[tuple[str, str, str]]:
    """Rows of the signal table."""
    for number in range(first, first + count):
        condition = "id > 0" if equal else f"id > {number}"
        data = {"data-collections": ["public.read"], "additional-condition": condition}
        yield str(number), "execute-snapshot", orjson.dumps(data).decode()


def flood(database: Database, first: int, count: int, *, equal: bool) -> None:
    """Insert them, a thousand a transaction."""
    with database.connect() as connection:
        for begin in range(first, first + count, _A_TRANSACTION):
            size = min(_A_TRANSACTION, first + count - begin)
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO signals VALUES (%s, %s, %s)", signals(begin, size, equal=equal)
                )


def prepared(database: Database) -> None:
    """A table to read, one to write, and the signals' own."""
    database.execute(
        SIGNAL_TABLE,
        "CREATE TABLE read AS SELECT generate_series(1, 100) AS id",
        "ALTER TABLE read ADD PRIMARY KEY (id)",
        "CREATE TABLE written (id int PRIMARY KEY)",
    )


@dataclass
class Watch:
    """Turns a job and notes when each written row was sent."""

    job: Driven
    sent: dict[int, float] = field(default_factory=dict)
    state_bytes: list[int] = field(default_factory=list)
    _seen: int = -1

    def turn(self) -> None:
        """One turn, and a look at what it committed."""
        self.job.job.turn()
        number = self.job.job.state.turn
        if number == self._seen:
            return
        self._seen, now = number, time.monotonic()
        state = self.job.directory / "state"
        self.state_bytes.append(max((path.stat().st_size for path in state.glob("*.json")), default=0))
        for part in (self.job.directory / "events" / f"turn-{number:012d}").glob("part-*.jsonl"):
            for line in part.read_bytes().splitlines():
                if b"tm.public.written" in line:
                    self.sent[orjson.loads(line)["key"]["id"]] = now


def measured(
    job: AbstractContextManager[Driven], database: Database, count: int
) -> Iterator[dict[str, object]]:
    """A line for the different signals, and one for the equal ones."""
    with job as driven_job, Writer(database) as writer:
        watch, first = Watch(driven_job), 0
        for equal in (False, True):
            begun_s, before, rows = time.monotonic(), len(driven_job.answers), len(writer.written)
            sending = threading.Thread(target=flood, args=(database, first, count), kwargs={"equal": equal})
            sending.start()
            first += count
            watch.state_bytes.clear()
            while sending.is_alive():
                watch.turn()
            end = _end_of_log(database)
            while driven_job.job.state.snapshot.tables or not _reached(driven_job, end):
                assert time.monotonic() - begun_s < _LONGEST_S, driven_job.job.state
                watch.turn()
            seconds = time.monotonic() - begun_s
            last = len(writer.written) - 1
            while last >= 0 and last not in watch.sent:
                watch.turn()
            delays = [watch.sent[key] - writer.written[key] for key in range(rows, last + 1)]
            yield {
                "bench": "flood",
                "signals": count,
                "equal": equal,
                "seconds": round(seconds, 1),
                "refused_together": _refused(driven_job, before),
                "answers": dict(Counter(str(answer.outcome) for answer in driven_job.answers[before:])),
                "changes": len(delays),
                "p50_ms": round(1000 * float(np.percentile(delays, 50))),
                "worst_ms": round(1000 * max(delays)),
                "most_state_bytes": max(watch.state_bytes, default=0),
            }


def _refused(job: Driven, since: int) -> int:
    """How many signals were refused in answers to many."""
    said = (_TOGETHER.match(answer.text) for answer in job.answers[since:] if answer.outcome == "rejected")
    return sum(int(found[1]) for found in said if found)


def _end_of_log(database: Database) -> int:
    with database.connect() as connection:
        row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
    return int(row[0]) if row else 0


def _reached(job: Driven, end: int) -> bool:
    """Whether everything up to a place in the log was streamed."""
    position = job.job.state.position
    return position is not None and int(position.order[0]) >= end


def main() -> None:
    """Print a line for each half."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--signals", type=int, default=50_000)
    half = arguments.parse_args().signals // 2
    spark = spark_session("local[2]", {}, (POSTGRES_JDBC,))
    with tempfile.TemporaryDirectory(prefix="tidemark-flood-") as place, PostgresServer() as server:
        database = server.create_database("flood")
        prepared(database)
        for line in measured(driven(database, Path(place), spark), database, half):
            print(orjson.dumps(line).decode(), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
