"""Snapshots on a Spark cluster, executors of one core each, beside `local[*]` in the same run.

Everything runs on this machine, so figures of a few executors show what a cluster adds, not how it scales.
For each part it says CPU seconds per million rows, which travel better than rates.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext

from adapters.spark.cluster.archive import default_name, write_archive
from adapters.spark.session import POSTGRES_JDBC, spark_session
from tests.bench.bench import SERVER_SETTINGS, benches
from tests.bench.processes import below, stats
from tests.bench.tables import TABLES
from tests.bench.throughput import Variant, made, signalled
from tests.servers.kafka import KafkaBroker
from tests.servers.postgres import PostgresServer
from tests.servers.spark_cluster import SparkCluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from tests.bench.bench import Bench
    from tests.bench.tables import BenchTable

PARTITIONS = 8
_ALONE, _EXECUTORS_EACH = 2, 4
"""Up to two executors have a worker each, which is one more JVM. Of more, four share one."""
LOCAL = 0
"""In the place of a number of executors: the machine's own, `local[*]`."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU seconds of each part at one moment, and of whatever else runs on the machine."""

    database: float
    jvm: float
    worker: float
    driver: float
    sink: float
    others: float
    at_s: float

    def since(self, before: Cpu) -> Cpu:
        """What was spent since an earlier moment."""
        return Cpu(*(getattr(self, name) - getattr(before, name) for name in Cpu.__slots__))

    @property
    def cores_left(self) -> float:
        """The cores that others left to us."""
        return (os.cpu_count() or 1) - max(0.0, self.others) / self.at_s


def cpu_now(bench: Bench, executors: Sequence[int]) -> Cpu:
    """The CPU time of all parts so far. On a local master the executor is the driver's JVM."""
    seen = stats()
    parents = {process: stat.parent for process, stat in seen.items()}

    def spent(processes: set[int]) -> float:
        return sum(seen[process].own_s + seen[process].ended_s for process in processes if process in seen)

    database, *broker = bench.servers
    gateway = bench.spark.sparkContext._gateway
    driver_jvm = gateway.proc.pid if gateway is not None else 0
    jvms = {*executors} or {driver_jvm}
    workers = {process for jvm in jvms for process in below(jvm, parents)} - jvms
    driver = {os.getpid()} | ({driver_jvm} if executors else set())
    parts = {
        "database": spent(below(database, parents)),
        "jvm": spent(jvms),
        "worker": spent(workers),
        "driver": spent(driver),
        "sink": sum(spent(below(process, parents)) for process in broker),
    }
    return Cpu(**parts, others=_busy_s() - sum(parts.values()), at_s=time.perf_counter())


def _busy_s() -> float:
    """The seconds that all cores have been busy since the machine started."""
    user, nice, system, _idle, _wait, interrupts, soft, *_ = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + interrupts + soft) / _TICKS_PER_S


@contextmanager
def sessions(executors: int) -> Iterator[tuple[SparkSession, Any]]:
    """A session with so many executors of one core each, all of them there; LOCAL: this machine's own."""
    with ExitStack() as held:
        if executors == LOCAL:
            session, cluster = spark_session("local[*]", {}, (POSTGRES_JDBC,)), None
        else:
            workers = executors if executors <= _ALONE else math.ceil(executors / _EXECUTORS_EACH)
            each = math.ceil(executors / workers)
            cluster = held.enter_context(SparkCluster(workers, each=each, disk=None))
            archive = Path(held.enter_context(tempfile.TemporaryDirectory())) / default_name()
            write_archive(archive)
            most = {"spark.cores.max": str(executors)}
            session = spark_session(cluster.url, cluster.settings | most, (POSTGRES_JDBC,), str(archive))
            deadline = time.monotonic() + 120
            while session.sparkContext.defaultParallelism < executors or len(cluster.executors()) < executors:
                assert time.monotonic() < deadline, cluster.logs()
                time.sleep(0.2)
        held.callback(_end, session)
        yield session, cluster


def _end(session: SparkSession) -> None:
    """End the session and its JVM: the next one has settings of its own, and compiles for itself."""
    gateway = session.sparkContext._gateway
    session.stop()
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(30)
    SparkContext._gateway = SparkContext._jvm = None


def measure_cluster(
    table: BenchTable, rows: int, sinks: Sequence[str], counts: Sequence[int], runs: int
) -> Iterator[dict[str, Any]]:
    """A snapshot into each sink on each number of executors, beside this machine's own in the same run.

    The first one of each session is `cold`: its JVMs, three or more on a cluster, compile what they run.
    """
    with ExitStack() as held:
        server = held.enter_context(PostgresServer(settings=SERVER_SETTINGS))
        broker = held.enter_context(KafkaBroker()) if "kafka" in sinks else None
        local: dict[tuple[str, bool], float] = {}
        for executors in (LOCAL, *counts):
            with (
                tempfile.TemporaryDirectory(prefix="tidemark-bench-") as place,
                sessions(executors) as (spark, cluster),
                benches(server, spark, Path(place), broker=broker) as bench,
            ):
                bench.more = {"topic.creation.default.partitions": str(PARTITIONS)}
                made(bench, table, rows)
                for cold, sink in ((True, sinks[0]), *((False, sink) for _ in range(runs) for sink in sinks)):
                    line = _measured(bench, table, rows, sink, cluster)
                    if executors == LOCAL:
                        local[sink, cold] = max(local.get((sink, cold), 0.0), line["per_s"])
                    yield {"bench": "cluster", "executors": executors or "local[*]", "cold": cold, **line} | {
                        "of_local": round(line["per_s"] / local[sink, cold], 2)
                    }


def _measured(
    bench: Bench, table: BenchTable, rows: int, sink: str, cluster: SparkCluster | None
) -> dict[str, Any]:
    executors = cluster.executors() if cluster else []
    before = cpu_now(bench, executors)
    clock_s = signalled(bench, table, rows, Variant(sink)).clock_s
    spent = cpu_now(bench, executors).since(before)
    million = rows / 1e6
    turns = [seen.events for _at, seen in bench.seen if seen.events]
    return {
        "sink": sink,
        "rows": rows,
        "per_s": round(rows / clock_s),
        "cores_left": round(spent.cores_left, 2),
        "cpu_s_per_million": {
            name: round(getattr(spent, name) / million, 3)
            for name in ("database", "jvm", "worker", "driver", "sink")
        },
        "turns": len(turns),
        "rows_a_turn": round(rows / max(1, len(turns))),
    }


def cluster_lines(options: Any) -> Iterator[dict[str, Any]]:
    """What the command's options ask for."""
    rows = (options.rows or [1_000_000])[0]
    sinks = options.cluster_sink
    yield from measure_cluster(TABLES[options.table], rows, sinks, options.executors, options.runs)
