"""The metrics as Prometheus reads them: Debezium's names, our own, and no value of a row."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from adapters.http.metrics import MetricsPage
from adapters.mongodb.log.reader import Polls
from adapters.mongodb.source import MongoSource
from engine.errors import SourceError
from engine.events.counts import EventCounts
from tests.job_bench import BOTH, U
from tests.memory_source import Change
from tests.unit.adapters.http.debezium_attributes import ATTRIBUTES, OF_MONGODB, snake
from tests.unit.adapters.http.watched_job import WatchedJob

if TYPE_CHECKING:
    from pathlib import Path

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scraped(job: WatchedJob) -> dict[str, list[tuple[dict[str, str], float]]]:
    """The samples by name, as Prometheus' own parser reads them."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(MetricsPage(job.monitor).text().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def value(job: WatchedJob, name: str, **labels: str) -> float:
    (found,) = [number for given, number in scraped(job)[name] if labels.items() <= given.items()]
    return found


@pytest.fixture
def job(tmp_path: Path) -> WatchedJob:
    return WatchedJob(tmp_path, tidemark_http_port="0")


@pytest.mark.parametrize("context", ATTRIBUTES)
def test_every_attribute_of_debezium_has_a_metric_with_its_labels(job: WatchedJob, context: str):
    bench = job.begin()
    bench.source.tells = {"counts": EventCounts(1, last_transaction=812)}
    bench.execute(BOTH)
    bench.turns(3)
    found = scraped(job)

    for attribute in ATTRIBUTES[context]:
        name = f"debezium_metrics_{snake(attribute)}"
        labels = [given for given, _value in found[name] if given["context"] == context]
        if attribute in {"RowsScanned", "TableChunkCounts", "TableChunksCompletedCounts"}:
            assert name in found
            assert all("table" in given for given, _value in found[name])
            continue
        assert labels, f"{attribute} of {context}"
        assert all(given["plugin"] == "postgres" for given in labels)
        assert all(given["name"] == "fulfillment" for given in labels)


def test_the_attributes_of_mongodbs_connector_have_metrics_too(tmp_path: Path):
    job = WatchedJob(tmp_path, tidemark_http_port="0")
    job.monitor.settings = replace(job.settings, runs="adapters.mongodb.job")
    questions: Any = SimpleNamespace(elections=2)
    source = MongoSource.__new__(MongoSource)
    opening: Any = SimpleNamespace(polls=Polls(12.0, 100.0, 7))
    source._questions, source._opening = questions, opening
    job.begin().turns(1)
    job.monitor.figures = source.figures

    for context, attributes in OF_MONGODB.items():
        for attribute in attributes:
            assert value(job, f"debezium_metrics_{snake(attribute)}", context=context, plugin="mongodb") >= 0
    assert value(job, "debezium_metrics_number_of_primary_elections") == 2
    assert value(job, "debezium_metrics_last_source_event_poll_time") == 12
    assert value(job, "debezium_metrics_number_of_empty_polls") == 7


def test_no_other_name_looks_like_debeziums(job: WatchedJob):
    job.begin().turns(1)
    known = {f"debezium_metrics_{snake(name)}" for names in ATTRIBUTES.values() for name in names}

    assert {name for name in scraped(job) if name.startswith("debezium_")} <= known


def test_a_snapshot_is_followed_by_rows_chunks_and_phases(job: WatchedJob):
    bench = job.begin()
    bench.execute(BOTH)
    bench.turns(2)
    context = {"context": "incremental_snapshot"}
    assert value(job, "debezium_metrics_snapshot_running", **context) == 1
    assert value(job, "debezium_metrics_total_table_count", **context) == 2
    assert (
        value(job, "tidemark_collections", stage="reading")
        + value(job, "tidemark_collections", stage="queued")
        == 2
    )
    bench.turns(10)

    assert value(job, "debezium_metrics_snapshot_running", **context) == 0
    assert value(job, "debezium_metrics_snapshot_completed", **context) == 1
    assert value(job, "debezium_metrics_remaining_table_count", **context) == 0
    assert value(job, "debezium_metrics_rows_scanned", table="public.t", **context) == 5
    assert value(job, "debezium_metrics_table_chunks_completed_counts", table="public.u", **context) >= 1
    assert value(job, "debezium_metrics_snapshot_running", context="snapshot") == 0
    assert value(job, "debezium_metrics_snapshot_skipped", context="snapshot") == 1
    assert (value(job, "tidemark_rows_read_total"), value(job, "tidemark_rows_emitted_total")) == (8, 8)
    assert value(job, "tidemark_rows_superseded_total") == 0
    for phase in ("open", "read", "wait", "emit"):
        assert value(job, "tidemark_window_seconds_count", phase=phase) == 1
    assert value(job, "tidemark_log_kept_bytes") == 4096
    assert value(job, "tidemark_staging_bytes") == 0


def test_the_stream_has_quantiles_operations_and_its_position(job: WatchedJob):
    bench = job.begin()
    for at in range(1, 101):
        bench.source.tells = {"counts": EventCounts(1, 0, 0, 0, 1, 700 + at), "lag_s": at / 1000}
        bench.database.commit(Change(U, at, "x"))
        bench.turns(1)

    lag = {
        name: value(job, f"debezium_metrics_milli_seconds_behind_source_{name}")
        for name in ("p50", "p95", "p99", "min_value", "max_value", "average_value")
    }
    assert lag == pytest.approx(
        {"p50": 50, "p95": 95, "p99": 99, "min_value": 1, "max_value": 100, "average_value": 50.5}, rel=0.03
    )
    assert value(job, "debezium_metrics_milli_seconds_behind_source") == pytest.approx(100)
    assert value(job, "debezium_metrics_total_number_of_create_events_seen") == 100
    assert value(job, "debezium_metrics_number_of_committed_transactions") == 100
    assert value(job, "debezium_metrics_last_transaction_id") == 800
    assert value(job, "debezium_metrics_source_event_position", key="lsn") == 7
    assert value(job, "debezium_metrics_connected") == 1
    assert value(job, "tidemark_turns_total") == 100


def test_failures_have_their_class_and_the_job_is_not_ready(job: WatchedJob):
    bench = job.begin()
    bench.job.close()
    bench.source.openings = [SourceError("gone")]
    bench.job.run(lambda: bool(job.monitor.tally.failures))

    assert value(job, "tidemark_failures_total", **{"class": "SourceError"}) == 1
    assert value(job, "debezium_metrics_connected") == 0
    assert value(job, "tidemark_ready") == 0


def test_no_secret_and_no_value_of_a_row_is_told(tmp_path: Path):
    token = "a-token-that-nobody-knows"
    job = WatchedJob(tmp_path, tidemark_http_port="0", tidemark_http_token=token)
    bench = job.begin()
    bench.database.commit(Change(U, 771_177, "confidential"))
    bench.execute('{"data-collections": ["public.u"]}')
    bench.turns(12)
    text = MetricsPage(job.monitor).text().decode()

    for secret in (token, "pa55word", "771177", "confidential"):
        assert secret not in text
