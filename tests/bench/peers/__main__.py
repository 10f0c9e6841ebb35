"""`python -m tests.bench.peers`: the real Debezium beside ours, a JSON object a pair of runs."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from adapters.spark.session import POSTGRES_JDBC, spark_session
from tests.bench.bench import SERVER_SETTINGS, benches
from tests.bench.mongodb import MongoBench
from tests.bench.peers.documents import measure_documents
from tests.bench.peers.jars import SHA256
from tests.bench.peers.measure import Contest
from tests.bench.tables import TABLES
from tests.servers.mongodb import MongoServer
from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

_OF_MONGODB = "2.1.4.Final"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for; gives the exit code."""
    options = parser().parse_args(arguments)
    spark = spark_session("local[2]", {}, (POSTGRES_JDBC,))
    with tempfile.TemporaryDirectory(prefix="tidemark-peers-") as place:
        for source in options.source:
            measure = _postgres if source == "postgres" else _mongodb
            for line in measure(spark, Path(place) / source, options):
                print(orjson.dumps(line).decode(), flush=True)
    spark.stop()
    return 0


def _postgres(spark: SparkSession, place: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    tables = [TABLES[name] for name in options.table]
    with (
        PostgresServer(settings=SERVER_SETTINGS) as server,
        benches(server, spark, place, warm_rows=options.warm_rows) as bench,
    ):
        yield from Contest(
            bench, options.peer, tables, options.rows, options.runs, 2 * options.warm_rows
        ).measure()


def _mongodb(spark: SparkSession, place: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    if _OF_MONGODB in options.peer:
        with MongoServer(cache_gb=1) as mongod:
            mongo = MongoBench(mongod, spark, place)
            yield from measure_documents(mongo, _OF_MONGODB, options.rows, options.runs)


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parsed = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    parsed.add_argument(
        "--source", choices=("postgres", "mongodb"), nargs="+", default=["postgres", "mongodb"]
    )
    parsed.add_argument("--peer", choices=sorted(SHA256), nargs="+", default=sorted(SHA256))
    parsed.add_argument("--table", choices=sorted(TABLES), nargs="+", default=["wide", "customers"])
    parsed.add_argument("--rows", type=int, default=1_000_000, help="of each table (1,000,000)")
    parsed.add_argument("--runs", type=int, default=5, help="how often to measure; a line each (5)")
    parsed.add_argument("--warm-rows", type=int, default=100_000, help="half the rows that warm an engine")
    return parsed


if __name__ == "__main__":
    sys.exit(main())
