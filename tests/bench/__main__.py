"""`python -m tests.bench snapshot|initial|stream|latency|kafka|mongodb-…`: one JSON object a line.

`kafka` is a snapshot into a broker, and the latency through its consumer.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from adapters.spark.session import POSTGRES_JDBC, spark_session
from tests.bench.bench import SERVER_SETTINGS, benches
from tests.bench.latency import Load, measure_latency
from tests.bench.mongodb import MongoBench
from tests.bench.tables import TABLES
from tests.bench.throughput import measure_initial, measure_snapshot, measure_stream
from tests.servers.kafka import KafkaBroker
from tests.servers.mongodb import MongoServer
from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from tests.bench.bench import Bench
    from tests.bench.tables import BenchTable

_ROWS = {
    "snapshot": 1_000_000,
    "initial": 1_000_000,
    "stream": 500_000,
    "latency": 1_000_000,
    "kafka": 2_000_000,
    "mongodb-snapshot": 500_000,
    "mongodb-stream": 200_000,
}
_WRITES_PER_S = (100, 1000)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark; gives the exit code."""
    options = parser().parse_args(arguments)
    spark = spark_session("local[2]", {}, (POSTGRES_JDBC,))
    if options.bench.startswith("mongodb"):
        with (
            tempfile.TemporaryDirectory(prefix="tidemark-bench-") as place,
            MongoServer(cache_gb=1) as mongod,
        ):
            mongo, rows = MongoBench(mongod, spark, Path(place)), options.rows or _ROWS[options.bench]
            line = mongo.snapshot(rows) if options.bench == "mongodb-snapshot" else mongo.stream(rows)
            print(orjson.dumps(line).decode(), flush=True)
        spark.stop()
        return 0
    with (
        tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory,
        PostgresServer(settings=SERVER_SETTINGS) as server,
        KafkaBroker() if "kafka" in {options.bench, options.sink} else nullcontext() as broker,
        benches(server, spark, Path(directory), broker=broker) as bench,
    ):
        for line in lines(bench, options):
            print(orjson.dumps(line).decode(), flush=True)
    spark.stop()
    return 0


def lines(bench: Bench, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What the chosen benchmark measures, one at a time."""
    table, rows = TABLES[options.table], options.rows or _ROWS[options.bench]
    match options.bench:
        case "snapshot":
            yield measure_snapshot(bench, table, rows, options.sink)
        case "initial":
            yield measure_initial(bench, table, rows, options.sink)
        case "stream":
            yield measure_stream(bench, table, rows, options.sink)
        case "latency":
            yield from _latencies(bench, table, Load(rows, options.seconds, 0, "files"))
        case _:
            yield measure_snapshot(bench, table, rows, "kafka")
            yield from _latencies(bench, table, Load(rows, options.seconds, 0, "kafka"))


def _latencies(bench: Bench, table: BenchTable, load: Load) -> Iterator[dict[str, Any]]:
    for rate in _WRITES_PER_S:
        yield from measure_latency(bench, table, replace(load, writes_per_s=rate))


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parsed = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parsed.add_argument("bench", choices=sorted(_ROWS))
    parsed.add_argument("--rows", type=int, help="rows of the table, or changes in the log")
    parsed.add_argument("--table", choices=sorted(TABLES), default="wide")
    parsed.add_argument("--sink", choices=("null", "files", "kafka"), default="null")
    parsed.add_argument("--seconds", type=float, default=15.0, help="how long each latency run writes (15)")
    return parsed


if __name__ == "__main__":
    sys.exit(main())
