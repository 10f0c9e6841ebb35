"""The benchmarks work, on few rows; how fast is not judged here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.bench.__main__ import lines, parser
from tests.bench.bench import benches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.bench.bench import Bench
    from tests.servers.postgres import PostgresServer

pytestmark = pytest.mark.integration

_RATES = {"bench", "table", "rows", "sink", "per_s", "limit_per_s", "ratio"}


@pytest.fixture(scope="module")
def bench(
    postgres18: PostgresServer, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    with benches(postgres18, spark, tmp_path_factory.mktemp("bench"), warm_rows=1000) as made:
        yield made


def measured(bench: Bench, words: str) -> list[dict[str, Any]]:
    return list(lines(bench, parser().parse_args(words.split())))


def test_the_initial_snapshot_s_benchmark_compares_it_with_a_signal_s(bench: Bench) -> None:
    (line,) = measured(bench, "initial --rows 2000")

    assert line.keys() > _RATES
    assert line["per_s"] > 0 < line["incremental_per_s"]


def test_each_run_of_a_snapshot_takes_every_sink_and_counts_every_event(bench: Bench) -> None:
    found = measured(bench, "snapshot --rows 2000 --table wide --sink null files --schemas --runs 2")

    assert [(measure["sink"], measure["schemas"]) for measure in found] == [
        ("null", False),
        ("files", False),
        ("null", True),
    ] * 2
    assert all(measure.keys() > _RATES and measure["per_s"] > 0 < measure["limit_per_s"] for measure in found)
    assert all("cpu_ratio" in measure for measure in found)


@pytest.mark.parametrize("transaction", ["100", "1", "0"])
def test_a_backlog_counts_every_change_however_it_was_committed(bench: Bench, transaction: str) -> None:
    words = f"stream --rows 1050 --table customers --sink files --runs 2 --transaction-rows {transaction}"
    found = measured(bench, words)

    assert [(measure["rows"], measure["sink"], measure["at_once"]) for measure in found] == [
        (1050, "files", int(transaction))
    ] * 2
    assert all(measure.keys() > _RATES and measure["per_s"] > 0 < measure["limit_per_s"] for measure in found)


def test_memory_is_that_of_driver_jvm_and_workers_at_each_size(bench: Bench) -> None:
    found = measured(bench, "memory --rows 500 2000 --table customers")

    assert [measure["rows"] for measure in found] == [500, 2000]
    for measure in found:
        parts = [measure["driver_mib"], measure["jvm_mib"], measure["workers_mib"]]
        assert min(parts) > 0
        assert abs(sum(parts) - measure["peak_mib"]) <= 2


@pytest.mark.thorough
def test_many_tables_are_streamed_and_snapshotted_with_few_jobs(bench: Bench) -> None:
    found = measured(bench, "tables --tables 60 --runs 2")

    assert [(measure["table"], measure["rows"]) for measure in found] == [
        ("first span", 600),
        *[("span", 600)] * 2,
        *[("snapshot", 7800)] * 2,
    ]
    # Sessions of tests before this one may tell late of their transactions.
    assert 0 < min(measure["jobs"] + measure["transactions"] for measure in found[:3]) < 60
    assert all(0 < measure["jobs"] < 60 for measure in found[3:])


@pytest.mark.thorough
def test_latency_is_told_without_and_with_a_snapshot_and_idle_cost_before(bench: Bench) -> None:
    found = measured(bench, "latency --rows 5000 --seconds 1 --table customers")

    idle, *loads = found
    assert idle["bench"] == "idle"
    # The kernel counts in hundredths of a second, so that a cheap second may count as none.
    assert 0 <= idle["cpu_percent"] < 50
    assert [(load["writes_per_s"], load["snapshot"]) for load in loads] == [
        (100, False),
        (100, True),
        (1000, False),
        (1000, True),
    ]
    assert all(0 < load["p50_ms"] <= load["p99_ms"] for load in loads)
