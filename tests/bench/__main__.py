"""`python -m tests.bench snapshot|initial|stream|latency|…`: one JSON object a line, and a line a run.

`latency` ends with what an idle job costs; `memory` takes several `--rows`; `kafka` is a snapshot into a
broker, and the latency through its consumer; `fencing` is that latency with transactional ids and without;
`certificate` is a snapshot with its certificate and without; `verify` is a verification beside its snapshot
and takes several `--rows`; `lake` has options of its own (`lake --help`); `cluster` is a snapshot on each
number of `--executors` beside `local[*]`, and `scale` sets what was measured beside the model of scale.
`tests.bench.suite` runs the others.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from adapters.kafka.settings import Fencing
from adapters.spark.session import POSTGRES_JDBC, spark_session
from tests.bench import lake
from tests.bench.bench import SERVER_SETTINGS, benches
from tests.bench.certificates import measure_certificates
from tests.bench.cluster import cluster_lines
from tests.bench.latency import Load, measure_idle, measure_latency
from tests.bench.many import measure_tables
from tests.bench.memory import measure_memory
from tests.bench.mongodb import MongoBench
from tests.bench.scale import scale_lines
from tests.bench.sqlserver import SqlServerBench
from tests.bench.tables import CHANGES_A_TRANSACTION, TABLES
from tests.bench.throughput import Variant, measure_initial, measure_snapshot, measure_stream
from tests.bench.verification import measure_verification
from tests.servers.kafka import KafkaBroker
from tests.servers.mongodb import MongoServer
from tests.servers.postgres import PostgresServer
from tests.servers.sqlserver import SqlServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from tests.bench.bench import Bench
    from tests.bench.tables import BenchTable

_ROWS: dict[str, list[int]] = {
    "snapshot": [2_000_000],
    "initial": [1_000_000],
    "stream": [500_000],
    "latency": [1_000_000],
    "memory": [1_000_000, 10_000_000, 30_000_000],
    "tables": [0],
    "kafka": [2_000_000],
    "certificate": [2_000_000],
    "cluster": [1_000_000],
    "scale": [1_000_000],
    "verify": [2_000_000],
    "fencing": [10_000],
    "mongodb-snapshot": [500_000],
    "mongodb-stream": [200_000],
    "sqlserver-snapshot": [3_000_000],
    "sqlserver-stream": [300_000],
}
_WRITES_PER_S = (100, 1000)
_SESSIONS = {"cluster": cluster_lines, "scale": scale_lines}
"""Benchmarks that make sessions of their own."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark; gives the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["lake"]:
        return lake.main(given[1:])
    options = parser().parse_args(arguments)
    if options.bench in _SESSIONS:
        for line in _SESSIONS[options.bench](options):
            print(orjson.dumps(line).decode(), flush=True)
        return 0
    spark = spark_session(f"local[{options.tasks}]", {}, (POSTGRES_JDBC,))
    if options.bench.startswith("mongodb"):
        with (
            tempfile.TemporaryDirectory(prefix="tidemark-bench-") as place,
            MongoServer(cache_gb=1) as mongod,
        ):
            mongo = MongoBench(mongod, spark, Path(place))
            for line in mongo_lines(mongo, options):
                print(orjson.dumps(line).decode(), flush=True)
        spark.stop()
        return 0
    if options.bench.startswith("sqlserver"):
        with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as place, SqlServer() as standin:
            for line in sqlserver_lines(SqlServerBench(standin, spark, Path(place)), options):
                print(orjson.dumps(line).decode(), flush=True)
        spark.stop()
        return 0
    with (
        tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory,
        PostgresServer(settings=SERVER_SETTINGS) as server,
        KafkaBroker() if {"kafka", "fencing"} & {options.bench, *options.sink} else nullcontext() as broker,
        benches(server, spark, Path(directory), broker=broker) as bench,
    ):
        for line in lines(bench, options):
            print(orjson.dumps(line).decode(), flush=True)
    spark.stop()
    return 0


def lines(bench: Bench, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What the chosen benchmark measures, one at a time."""
    table, sizes, runs = TABLES[options.table], options.rows or _ROWS[options.bench], options.runs
    sink, rows = options.sink[0], sizes[0]
    match options.bench:
        case "snapshot":
            yield from measure_snapshot(bench, table, rows, _variants(options), runs)
        case "initial":
            yield from measure_initial(bench, table, rows, sink, runs)
        case "stream":
            at_once = options.transaction_rows
            yield from measure_stream(bench, table, rows, sink, at_once=at_once, runs=runs)
        case "latency":
            yield from measure_idle(bench, options.seconds, "files", runs)
            yield from _latencies(bench, table, Load(rows, options.seconds, 0, "files"), runs)
        case "memory":
            yield from measure_memory(bench, table, sizes, sink)
        case "tables":
            yield from measure_tables(bench, options.tables, sink, runs)
        case "certificate":
            yield from measure_certificates(bench, table, rows, sink, runs)
        case "verify":
            yield from measure_verification(bench, table, sizes)
        case "fencing":
            yield from _fenced_and_not(bench, table, Load(rows, options.seconds, 0, "kafka"), runs)
        case _:
            yield from measure_snapshot(bench, table, rows, [Variant("kafka")], runs)
            yield from _latencies(bench, table, Load(rows, options.seconds, 0, "kafka"), runs)


def mongo_lines(mongo: MongoBench, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What the chosen benchmark of MongoDB measures, one at a time."""
    rows = (options.rows or _ROWS[options.bench])[0]
    for _ in range(options.runs):
        yield mongo.snapshot(rows) if options.bench == "mongodb-snapshot" else mongo.stream(rows)


def sqlserver_lines(bench: SqlServerBench, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What the chosen benchmark of SQL Server measures, one at a time."""
    rows = (options.rows or _ROWS[options.bench])[0]
    bench.warm()
    for _ in range(options.runs):
        if options.bench == "sqlserver-stream":
            yield bench.stream(rows)
        else:
            yield bench.snapshot(rows, options.capture_delay)


def _variants(options: argparse.Namespace) -> list[Variant]:
    """Each sink without schemas; the first one also with them, if asked."""
    plain = [Variant(sink) for sink in options.sink]
    return [*plain, *([Variant(options.sink[0], schemas=True)] if options.schemas else [])]


def _fenced_and_not(bench: Bench, table: BenchTable, load: Load, runs: int) -> Iterator[dict[str, Any]]:
    """Latency to a consumer that reads what is committed, without and with transactional ids, in turn."""
    place = bench.directory
    for run, rate, fencing in product(range(runs), _WRITES_PER_S, Fencing):
        bench.directory = place / f"{run}-{rate}-{fencing}"
        bench.directory.mkdir()
        bench.more = {"tidemark.sink.kafka.fencing": fencing.value}
        for line in measure_latency(bench, table, replace(load, writes_per_s=rate)):
            yield {**line, "fencing": fencing.value, "run": run}


def _latencies(bench: Bench, table: BenchTable, load: Load, runs: int) -> Iterator[dict[str, Any]]:
    for rate in _WRITES_PER_S:
        yield from measure_latency(bench, table, replace(load, writes_per_s=rate), runs)


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parsed = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parsed.add_argument("bench", choices=sorted(_ROWS))
    parsed.add_argument("--rows", type=int, nargs="+", help="rows of the table, or of inserts and of updates")
    parsed.add_argument("--table", choices=sorted(TABLES), default="wide")
    parsed.add_argument("--sink", choices=("null", "files", "kafka"), nargs="+", default=["null"])
    parsed.add_argument(
        "--cluster-sink",
        choices=("null", "kafka"),
        nargs="+",
        default=["null", "kafka"],
        help="cluster: these",
    )
    parsed.add_argument("--schemas", action="store_true", help="snapshot: with schemas as well as without")
    parsed.add_argument("--tasks", type=int, default=2, help="how many tasks read a window (2)")
    parsed.add_argument("--seconds", type=float, default=15.0, help="how long each latency run writes (15)")
    parsed.add_argument("--runs", type=int, default=1, help="how often to measure; a line each (1)")
    parsed.add_argument(
        "--capture-delay", type=float, default=5.0, help="sqlserver-snapshot: seconds between captures (5)"
    )
    parsed.add_argument(
        "--executors", type=int, nargs="+", default=[1, 2], help="cluster, scale: of one core each (1 2)"
    )
    parsed.add_argument("--tables", type=int, default=1000, help="tables: how many (1000)")
    parsed.add_argument(
        "--transaction-rows",
        type=int,
        default=CHANGES_A_TRANSACTION,
        help="stream: rows that each transaction changes; 0: all of them in one (100)",
    )
    return parsed


if __name__ == "__main__":
    sys.exit(main())
