"""What each job costs beyond the first where many share a process: memory, and CPU while nothing happens.

    python -m tests.bench.many_jobs [--jobs 50] [--seconds 60]

Each job has a small database of its own on one server, and takes a snapshot of it first.
Memory is that of this process, its JVM and its workers; the server's is left out.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import tidemark
from tests.bench.processes import cpu_seconds, sample
from tests.driven import SIGNAL_TABLE, properties
from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.servers.postgres import Database

_ROWS: Final = 100
_MOST_MIB: Final = 30.0
_MOST_OF_A_CORE: Final = 0.005
_SETTLED_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What some jobs cost together: `cores` is CPU time per time while they are idle."""

    jobs: int
    mib: float
    cores: float
    parts: dict[str, float]


def made(server: PostgresServer, number: int) -> Database:
    """A small database."""
    database = server.create_database(f"shop_{number}")
    with database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY, note text)")
        connection.execute(f"INSERT INTO orders SELECT i, 'note' FROM generate_series(1, {_ROWS}) i")
    return database


def started(database: Database, folder: Path) -> tidemark.RunningJob:
    """A job that streams, and has taken a snapshot."""
    directory = folder / database.name
    directory.mkdir()
    more = {"topic__prefix": database.name, "tidemark__spark__master": "local[2]"}
    job = tidemark.start(properties(database, directory, **more))
    signal = job.signal("execute-snapshot", ["public.orders"], within_s=600)
    job.wait(signal, timeout_s=600).check()
    return job


def cost(jobs: int, servers: Iterable[int], seconds: float) -> Cost:
    """Measure jobs that have nothing to do."""
    time.sleep(_SETTLED_S)
    without = list(servers)
    before_s, at_s = cpu_seconds(os.getpid(), without), time.monotonic()
    time.sleep(seconds)
    spent_s, took_s = cpu_seconds(os.getpid(), without) - before_s, time.monotonic() - at_s
    parts = sample(without).parts
    return Cost(jobs, sum(parts.values()), spent_s / took_s, parts)


def measure(jobs: int, seconds: float) -> tuple[Cost, Cost]:
    """The cost of one job, and of all."""
    many = {"max_wal_senders": "100", "max_replication_slots": "100", "max_connections": "600"}
    with PostgresServer(18, settings=many) as server, ExitStack() as held:  # the jobs end first
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        own = [int((server.pgdata / "postmaster.pid").read_text().split()[0])]
        databases = [made(server, number) for number in range(jobs)]
        held.enter_context(started(databases[0], folder))
        first = cost(1, own, seconds)
        for database in databases[1:]:
            held.enter_context(started(database, folder))
        return first, cost(jobs, own, seconds)


def main() -> int:
    """Measure and print; 1 if a job costs more than it may."""
    parser = argparse.ArgumentParser(description="memory and idle CPU of jobs that share a process")
    parser.add_argument("--jobs", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    first, every = measure(options.jobs, options.seconds)
    for found in (first, every):
        parts = ", ".join(f"{name} {mib:.0f}" for name, mib in found.parts.items())
        print(f"{found.jobs} jobs: {found.mib:.0f} MiB ({parts}), {100 * found.cores:.2f} % of a core idle")
    further = every.jobs - first.jobs
    mib, cores = (every.mib - first.mib) / further, (every.cores - first.cores) / further
    print(f"each further job: {mib:.1f} MiB, {100 * cores:.3f} % of a core")
    return 1 if mib > _MOST_MIB or cores > _MOST_OF_A_CORE else 0


if __name__ == "__main__":
    sys.exit(main())
