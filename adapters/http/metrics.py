"""The metrics page, in Prometheus' text format: Tidemark's own metrics, Debezium's, and the process's.

The numbers are those that the job keeps anyway (`engine/job/reports/tally.py`). They are put together when
somebody asks. No label has a value of a row or a secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from adapters.http.debezium_metrics import DebeziumMetrics
from adapters.http.health import ready
from adapters.release import release
from engine.job.reports.snapshot_tally import MOST_NAMED
from engine.job.saved.overview import Stage, overview

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from adapters.http.monitor import Monitor

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4


class MetricsPage:
    """Writes the metrics of a job."""

    def __init__(self, monitor: Monitor) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(JobMetrics(monitor))
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """The metrics as text."""
        return generate_latest(self._registry)


class JobMetrics(Collector):
    """Makes the families of a job for each scrape."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor

    def describe(self) -> list[Metric]:
        """Do nothing: a scrape reads what there is."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All families."""
        yield from self._job()
        yield from self._stream()
        yield from self._windows()
        yield from self._collections()
        yield from DebeziumMetrics(self._monitor).families()

    def _job(self) -> Iterator[Metric]:
        monitor, tally = self._monitor, self._monitor.tally
        info = InfoMetricFamily("tidemark", "the job, its source and its sink")
        version, settings = release(), monitor.settings
        kinds = {"source": monitor.plugin, "sink": str(settings.sink.kind)}
        info.add_metric([], {"version": version, "name": settings.name, **kinds})
        yield info
        yield _gauge(
            "tidemark_start_time_seconds", "when the process began to watch the job", monitor.begun_s
        )
        yield _gauge("tidemark_ready", "whether the job streams, as /readyz says", ready(monitor).good)
        saved_s = tally.seen.now_s if tally.seen else 0.0
        yield _gauge("tidemark_last_turn_timestamp_seconds", "when the last turn was saved", saved_s)
        yield _counter("tidemark_turns", "turns saved", tally.turns)
        yield _counter("tidemark_passes", "passes of the job's loop, also those without a turn", tally.passes)
        failures = CounterMetricFamily("tidemark_failures", "failures by class of error", labels=["class"])
        for name, count in sorted(tally.failures.copy().items()):
            failures.add_metric([name], count)
        yield failures

    def _stream(self) -> Iterator[Metric]:
        monitor, tally = self._monitor, self._monitor.tally
        yield _counter("tidemark_events", "events sent, of the stream and of snapshots", tally.sent)
        yield _counter("tidemark_entries", "entries of the log that were streamed", tally.entries)
        yield _gauge(
            "tidemark_lag_seconds", "age of the last commit when its events were sent", monitor.lag_s
        )
        kept = monitor.kept()
        kept_family = GaugeMetricFamily(
            "tidemark_log_kept_bytes", "log that the server keeps for the slot, as last looked at"
        )
        if kept is not None:
            kept_family.add_metric([], kept)
        yield kept_family
        incomplete = tally.seen.state.incomplete if tally.seen else ()
        yield _gauge("tidemark_incomplete_collections", "copies known to lack something", len(incomplete))

    def _windows(self) -> Iterator[Metric]:
        tally = self._monitor.tally
        phases = SummaryMetricFamily("tidemark_window_seconds", "time of windows by phase", labels=["phase"])
        for phase, time in tally.phases.items():
            phases.add_metric([str(phase)], time.windows, time.seconds)
        yield phases
        yield _gauge("tidemark_windows", "windows in progress", len(tally.windows))
        yield _counter(
            "tidemark_windows_given_up", "windows given up, whose rows are read again", tally.given_up
        )
        yield _counter("tidemark_rows_read", "rows that windows have read", tally.read)
        yield _counter(
            "tidemark_rows_superseded", "rows read that the stream had newer ones of", tally.superseded
        )
        yield _counter("tidemark_rows_emitted", "rows read that were emitted", tally.emitted)
        yield _gauge("tidemark_staging_bytes", "staged rows that wait to be emitted", tally.staged_bytes)

    def _collections(self) -> Iterator[Metric]:
        seen, now_s = self._monitor.tally.seen, self._monitor.clock.now()
        snapshots = overview(seen.state, now_s).snapshots if seen else ()
        stages = GaugeMetricFamily(
            "tidemark_collections", "snapshots of collections by stage", labels=["stage"]
        )
        for stage in Stage:
            stages.add_metric([str(stage)], sum(snapshot.stage is stage for snapshot in snapshots))
        yield stages
        fractions = GaugeMetricFamily(
            "tidemark_snapshot_fraction", "how much of a collection is read, 0 to 1", labels=["table"]
        )
        for name, percent in {
            snapshot.collection: snapshot.percent for snapshot in snapshots[:MOST_NAMED]
        }.items():
            fractions.add_metric([name], percent / 100)
        yield fractions
        failed = self._monitor.tally.snapshots.failed_collections
        yield _counter("tidemark_failed_collections", "collections that could not be read", failed)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)
