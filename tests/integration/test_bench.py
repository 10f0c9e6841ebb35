"""The benchmarks work, on few rows; how fast is not judged here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.bench.__main__ import lines, parser
from tests.bench.bench import benches

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import PostgresServer

pytestmark = pytest.mark.integration

_RATES = {"bench", "table", "rows", "sink", "per_s", "limit_per_s", "ratio", "row_bytes", "mb_per_s"}


def test_the_initial_snapshot_s_benchmark_compares_it_with_a_signal_s(
    postgres18: PostgresServer, spark: SparkSession, tmp_path: Path
) -> None:
    with benches(postgres18, spark, tmp_path, warm_rows=1000) as bench:
        (line,) = lines(bench, parser().parse_args(["initial", "--rows", "2000"]))

    assert line.keys() == _RATES | {"incremental_per_s"}
    assert line["per_s"] > 0 < line["incremental_per_s"]


def test_each_throughput_benchmark_counts_every_event(
    postgres18: PostgresServer, spark: SparkSession, tmp_path: Path
) -> None:
    wanted = (["snapshot", "--table", "wide"], ["stream", "--table", "customers", "--sink", "files"])
    measured: list[dict[str, Any]] = []
    with benches(postgres18, spark, tmp_path, warm_rows=1000) as bench:
        for words in wanted:
            measured += lines(bench, parser().parse_args([*words, "--rows", "2000"]))

    assert [(one["bench"], one["sink"]) for one in measured] == [("snapshot", "null"), ("stream", "files")]
    assert all(one.keys() == _RATES and one["per_s"] > 0 and one["limit_per_s"] > 0 for one in measured)
