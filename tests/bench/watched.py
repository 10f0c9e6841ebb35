"""What it costs to watch a job: CPU of the threads that serve its page and metrics, as a share of one core.

    python -m tests.bench.watched [--seconds 60]

One viewer has the page open, which asks for its sections every two seconds. Prometheus scrapes every five.
The job is idle first, then it streams 100 writes per second. What the job's own thread counts is timed apart.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters.http.history import EVERY_S, KEPT_S
from adapters.http.monitor import Monitor
from adapters.http.routes import Routes
from adapters.http.server import JobServer
from adapters.postgres.job import building
from adapters.source.assembly.supplied import Onlookers
from adapters.spark.session import POSTGRES_JDBC, spark_session
from adapters.system import system_clock
from engine.config import parse
from engine.events.counts import EventCounts
from engine.job.reports.observation import Observation
from engine.job.reports.tally import Tally
from engine.job.saved.state import State
from engine.ports.source import EncodingResult
from tests.driven import SIGNAL_TABLE, properties
from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.postgres import Database

_VIEWER = """
import sys, time
from http.client import HTTPConnection
port, path, every = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
connection = HTTPConnection("127.0.0.1", port, timeout=30)
while True:
    connection.request("GET", path)
    assert connection.getresponse().read()
    time.sleep(every)
"""
_WATCHING = ("tidemark-http", "tidemark-history", "(process_request_thread)")
_WRITES_PER_S = 100
_BATCH = 10


def cpu_s() -> float:
    """The CPU seconds of the threads that others watch the job by."""
    found = 0.0
    for thread in threading.enumerate():
        if thread.native_id and any(name in thread.name for name in _WATCHING):
            file = Path(f"/proc/self/task/{thread.native_id}/schedstat")
            found += int(file.read_text().split()[0]) / 1e9
    return found


def write(database: Database, stop: threading.Event) -> None:
    """Write rows, a transaction each, until told to stop."""
    with database.connect() as connection:
        number = 0
        while not stop.wait(_BATCH / _WRITES_PER_S):
            for _ in range(_BATCH):
                number += 1
                connection.execute("INSERT INTO t VALUES (%s, 'x')", [number])


def counting_s(turns: int = 20_000) -> float:
    """The seconds that a turn's counting takes in the job's own thread."""
    tally, encoded = Tally(watched=True), EncodingResult(counts=EventCounts(5, 3, 2, 0, 10, 7))
    seen = Observation(State(), 10, 0.01, 1.0, None, 1.0)
    began_s = time.thread_time()
    for _ in range(turns):
        tally.passes += 1
        tally.count_span(10, encoded)
        tally.count_turn(seen)
    return (time.thread_time() - began_s) / turns


def measured(seconds: float, folder: Path) -> Iterator[tuple[str, float, float, int]]:
    """For an idle job and a busy one: the name, CPU seconds of watching, of the process, and turns."""
    with ExitStack() as held:
        server = held.enter_context(PostgresServer(18, settings={"wal_level": "logical"}))
        database = server.create_database("watched")
        with database.connect() as connection:
            for statement in (SIGNAL_TABLE, "CREATE TABLE t (id int PRIMARY KEY, body text)"):
                connection.execute(statement.encode())
        settings = parse(properties(database, folder, tidemark__http__port="0"))
        spark = spark_session("local[2]", {}, (POSTGRES_JDBC,))
        held.callback(spark.stop)
        monitor = Monitor(settings, system_clock())
        page = JobServer(settings.http, Routes(monitor))
        held.callback(page.close)
        for _ in range(int(KEPT_S / EVERY_S)):
            monitor.history.take()  # the charts of a full hour
        monitor.history.begin()
        stop, quiet = threading.Event(), threading.Event()
        onlookers = Onlookers(lambda _seen: None, lambda _answer: None, monitor)
        job = held.enter_context(building(settings, spark, onlookers))
        turning = threading.Thread(target=job.run, args=(stop.is_set,))
        turning.start()
        held.callback(turning.join)
        held.callback(stop.set)
        for path, every in (("/sections", "2"), ("/metrics", "5")):
            held.enter_context(viewer(page.port, path, every))
        time.sleep(10)
        yield ("idle", *spent(seconds, monitor))
        writing = threading.Thread(target=write, args=(database, quiet))
        writing.start()
        time.sleep(5)
        yield (f"{_WRITES_PER_S} writes/s", *spent(seconds, monitor))
        quiet.set()
        writing.join()


def viewer(port: int, path: str, every: str) -> Any:
    """A process that asks for a path again and again."""
    held = ExitStack()
    process = subprocess.Popen([sys.executable, "-c", _VIEWER, str(port), path, every])
    held.callback(process.wait)
    held.callback(process.terminate)
    return held


def spent(seconds: float, monitor: Monitor) -> tuple[float, float, int]:
    """CPU seconds of watching and of the driver's process within so many seconds, and the turns meanwhile."""
    before = cpu_s(), time.process_time(), monitor.tally.turns
    time.sleep(seconds)
    return cpu_s() - before[0], time.process_time() - before[1], monitor.tally.turns - before[2]


def main() -> None:
    """Measure, and print a line for each."""
    parser = argparse.ArgumentParser(description="what watching a job costs")
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    turn_s = counting_s()
    with tempfile.TemporaryDirectory() as folder:
        for name, watching_s, process_s, turns in measured(given.seconds, Path(folder)):
            counting = turn_s * turns
            share = 100 * (watching_s + counting) / given.seconds
            print(
                f"{name}: watching takes {share:.2f} % of a core ({watching_s:.3f} s in its threads,"
                f" {counting:.3f} s of counting in {turns} turns); the whole driver"
                f" {100 * process_s / given.seconds:.1f} %"
            )


if __name__ == "__main__":
    main()
