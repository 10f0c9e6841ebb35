"""A thousand tables: a span that touches each of them, and one signal that snapshots all.

What is counted beside the time are Spark jobs and the database's transactions: neither may grow by one
per table and turn.
"""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.bench.limits import PUBLICATION, receive_seconds
from tests.servers.binaries import client_tool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.job.loop import Job
    from tests.bench.bench import Bench

_PATTERN = "many_.*"
_ROWS_A_TABLE = 100
_CHANGES_A_TABLE = 10
_AT_ONCE = 100


def measure_tables(bench: Bench, tables: int, sink: str, runs: int = 1) -> Iterator[dict[str, Any]]:
    """The span that meets every table for the first time, then others, then snapshots by one signal each."""
    names = [f"many_{number:04d}" for number in range(tables)]
    _make(bench, names)
    rows = _ROWS_A_TABLE
    with bench.slot("many") as slot, bench.job([_PATTERN], sink=sink, slot=slot) as job:
        for span in range(runs + 1):
            took = _span(bench, job, names, first=rows)
            rows += _CHANGES_A_TABLE
            case = "span" if span else "first span"
            yield _line(case, tables * _CHANGES_A_TABLE, sink, took) | {"tables": tables}
        for _ in range(runs):
            limit_s, counted = _copy_seconds(bench, names), _Counted(bench)
            took = _Took(bench.snapshot(job, _PATTERN), limit_s, counted.since())
            yield _line("snapshot", tables * rows, sink, took) | {"tables": tables}


def _span(bench: Bench, job: Job, names: list[str], first: int) -> _Took:
    with bench.slot("many_limit") as limit_slot:
        counted = _Counted(bench)
        _touch(bench, names, first)
        end = bench.end_of_log()
        seconds = bench.drain(job, end)
        return _Took(seconds, receive_seconds(bench.database, limit_slot, end), counted.since())


@dataclass(frozen=True, slots=True)
class _Took:
    seconds: float
    limit_s: float
    counted: dict[str, int]


def _line(case: str, rows: int, sink: str, took: _Took) -> dict[str, Any]:
    return {
        "bench": "tables",
        "table": case,
        "rows": rows,
        "sink": sink,
        "seconds": round(took.seconds, 3),
        "per_s": round(rows / took.seconds),
        "limit_per_s": round(rows / took.limit_s),
        "ratio": round(took.limit_s / took.seconds, 3),
        **took.counted,
    }


class _Counted:
    """Spark jobs and the database's transactions, since it was made."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._jobs, self._transactions = self._now()

    def since(self) -> dict[str, int]:
        jobs, transactions = self._now()
        return {"jobs": jobs - self._jobs, "transactions": transactions - self._transactions}

    def _now(self) -> tuple[int, int]:
        context: Any = self._bench.spark.sparkContext._jsc.sc()  # ids are given out in order
        with self._bench.database.connect() as connection:
            connection.execute("SELECT pg_stat_force_next_flush()")
            time.sleep(1.1)  # other sessions tell of their transactions once a second at most
            row = connection.execute(
                "SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database"
                " WHERE datname = current_database()"
            ).fetchone()
        assert row is not None
        return int(context.dagScheduler().nextJobId()), int(row[0])


def _make(bench: Bench, names: list[str]) -> None:
    with bench.database.connect() as connection:
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            with connection.transaction():
                for name in some:
                    connection.execute(
                        f"CREATE TABLE {name} (id int PRIMARY KEY, note text, at timestamptz)".encode()
                    )
                    connection.execute(_rows(name, 0, _ROWS_A_TABLE).encode())
                connection.execute(f"ALTER PUBLICATION {PUBLICATION} ADD TABLE {', '.join(some)}".encode())
        connection.execute("ANALYZE")
        connection.execute("CHECKPOINT")


def _touch(bench: Bench, names: list[str], first: int) -> None:
    """One transaction with some inserts into every table."""
    with bench.database.connect() as connection, connection.transaction():
        for name in names:
            connection.execute(_rows(name, first, first + _CHANGES_A_TABLE).encode())


def _rows(name: str, first: int, last: int) -> str:
    return (
        f"INSERT INTO {name} SELECT g, 'note ' || g, timestamptz '2026-01-01' + g * interval '1 second'"
        f" FROM generate_series({first}, {last - 1}) g"
    )


def _copy_seconds(bench: Bench, names: list[str]) -> float:
    """How long one psql takes to COPY all tables, one after the other."""
    command: list[str | Path] = [client_tool("psql"), "--no-psqlrc"]
    command += ["--dbname", bench.database.dsn(password=None)]
    commands = "".join(f"COPY {name} TO STDOUT;\n" for name in names)
    started = time.perf_counter()
    subprocess.run(
        command,
        check=True,
        text=True,
        input=commands,
        env=bench.database.server.client_environment(),
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - started
