"""How long an event takes from its commit to the sink, at a given rate of writes.

A writer of its own process stamps each row with the server's clock; a row is in the sink when its
turn has been committed, and in Kafka when a consumer has it. The same machine, so the same clock.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.bench.consumer import STAMP, consuming
from tests.bench.limits import PUBLICATION
from tests.bench.processes import own_seconds, spent_s
from tests.servers.binaries import client_tool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.job.loop import Job
    from tests.bench.bench import Bench
    from tests.bench.tables import BenchTable
    from tests.servers.postgres import Database

_TOPIC = "bench.public.latency"
_SETTLE_S = 3.0
_SCRIPT = """
\\set id random(1, 1000000)
INSERT INTO latency VALUES (:id, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 'a note')
 ON CONFLICT (id) DO UPDATE SET stamp = excluded.stamp;
"""


@dataclass(frozen=True, slots=True)
class Load:
    """What is written, for how long, and where the events go; `rows` are those of the table snapshotted."""

    rows: int
    seconds: float
    writes_per_s: int
    sink: str


def measure_latency(bench: Bench, table: BenchTable, load: Load, runs: int = 1) -> Iterator[dict[str, Any]]:
    """Without and with `table` snapshotted over and over meanwhile, in turn."""
    with bench.database.connect() as connection:
        if not connection.execute("SELECT to_regclass('latency')").fetchone()[0]:  # type: ignore[index] # one row
            connection.execute("CREATE TABLE latency (id bigint PRIMARY KEY, stamp bigint, note text)")
            connection.execute(f"ALTER PUBLICATION {PUBLICATION} ADD TABLE latency")
        if not connection.execute(f"SELECT to_regclass('{table.name}')").fetchone()[0]:  # type: ignore[index] # one row
            table.create(connection, load.rows)
            connection.execute(f"ALTER PUBLICATION {PUBLICATION} ADD TABLE {table.name}")
    for run, snapshot in product(range(runs), (False, True)):
        with bench.slot(f"latency_{load.writes_per_s}_{run}_{snapshot:d}") as slot:
            delays = _delays(bench, table.name if snapshot else None, slot, load)
        yield {
            "bench": "latency",
            "table": table.name if snapshot else "latency",
            "writes_per_s": load.writes_per_s,
            "snapshot": snapshot,
            "sink": load.sink,
            "events": len(delays),
            "p50_ms": round(float(np.percentile(delays, 50)), 1),
            "p99_ms": round(float(np.percentile(delays, 99)), 1),
        }


def measure_idle(bench: Bench, seconds: float, sink: str, runs: int = 1) -> Iterator[dict[str, Any]]:
    """What the job costs while nothing is written, in percent of one core; the database's part beside it."""
    with bench.slot("idle") as slot, bench.job(["warm"], sink=sink, slot=slot) as job:
        _turn_for(job, _SETTLE_S)
        for _ in range(runs):
            ours, theirs = own_seconds(os.getpid(), bench.servers), own_seconds(bench.servers[0])
            took_s = _turn_for(job, seconds)
            ours_s = spent_s(ours, own_seconds(os.getpid(), bench.servers))
            theirs_s = spent_s(theirs, own_seconds(bench.servers[0]))
            yield {
                "bench": "idle",
                "sink": sink,
                "seconds": round(took_s, 1),
                "cpu_percent": round(ours_s / took_s * 100, 2),
                "database_cpu_percent": round(theirs_s / took_s * 100, 2),
            }


def _turn_for(job: Job, seconds: float) -> float:
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        job.turn()
    return time.perf_counter() - started


def _delays(bench: Bench, table: str | None, slot: str, load: Load) -> np.ndarray:
    """Milliseconds from commit to sink, of each write."""
    if load.sink != "kafka":
        _drive(bench, table, slot, load)
        return _in_files(bench, slot)
    assert bench.broker is not None
    if not bench.broker.partitions(_TOPIC):
        bench.broker.create_topic(_TOPIC)
    with consuming(bench.broker.plain, _TOPIC) as consumer:
        _drive(bench, table, slot, load)
        return consumer.delays()


def _drive(bench: Bench, table: str | None, slot: str, load: Load) -> None:
    """Turn the job while the writer writes, and until all is sent."""
    tables = ["latency", *([table] if table else [])]
    with (
        bench.job(tables, sink=load.sink, slot=slot) as job,
        _writing(bench.database, load.writes_per_s, load.seconds) as writer,
    ):
        asked = 0
        while writer.poll() is None:
            if table and len(bench.answers) == 2 * asked:
                asked += 1
                bench.signal(f"snapshot {asked}", table)
            job.turn()
        bench.drain(job, bench.end_of_log())


def _in_files(bench: Bench, slot: str) -> np.ndarray:
    clock = time.time() - time.perf_counter()
    moments = {f"turn-{seen.state.turn:012d}": clock + at for at, seen in bench.seen}
    found = [
        moments[turn.name] * 1000 - stamps / 1000
        for turn in (bench.directory / f"events-{slot}").glob("turn-*")
        for stamps in _stamps(turn)
    ]
    return np.concatenate(found) if found else np.zeros(0)


def _stamps(turn: Path) -> Iterator[np.ndarray]:
    for part in turn.iterdir():
        stamps = STAMP.findall(part.read_bytes())
        if stamps:
            yield np.array([int(stamp) for stamp in stamps], np.float64)


@contextmanager
def _writing(database: Database, rate: int, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    """A pgbench that commits each write on its own."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(_SCRIPT)
        script.flush()
        server = database.server
        writer = subprocess.Popen(
            [
                *(client_tool("pgbench"), "--no-vacuum", "--client", "2", "--rate", str(rate)),
                *("--time", str(round(seconds)), "--protocol", "prepared", "--file", script.name),
                *("--host", server.host, "--port", str(server.port), "--username", server.user),
                database.name,
            ],
            env=server.client_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield writer
        finally:
            writer.terminate()
            writer.wait()
