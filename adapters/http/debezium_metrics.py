"""Debezium's metrics: the attributes of its MBeans under their names in snake case, with its labels.

What is text in an MBean can't be the value of a metric, and keys are values of rows. So:

- `last_event` is when it came, in Unix seconds; `last_transaction_id` is a number, where there is one
- `source_event_position` has a sample per number in a position
- `chunk_id` counts windows; `chunk_from`, `chunk_to`, `table_from` and `table_to` are places in the key space
- the queue of a snapshot holds windows, and bytes of staged rows
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily

from adapters.http.key_space import chunk_ends, segments
from engine.config.settings import WINDOW_BYTES
from engine.job.reports.snapshot_tally import MOST_NAMED
from engine.ports.log import ReadsAhead

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from adapters.http.monitor import Monitor
    from engine.job.reports.snapshot_tally import Course
    from engine.job.reports.tally import Tally
    from engine.snapshot.queue_entry import Table

PREFIX: Final = "debezium_metrics_"
_LABELS: Final = ("plugin", "name", "context")
_AT_ONCE: Final = 2
"""How many windows there may be."""


class DebeziumMetrics:
    """Makes the families anew for each scrape: one per attribute, with a sample per context."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor, self._now_s = monitor, monitor.clock.now()
        self._families: dict[str, GaugeMetricFamily] = {}

    def families(self) -> Iterator[GaugeMetricFamily]:
        """All families."""
        tally = self._monitor.tally
        self._streaming(tally)
        for context, course, initial in (
            ("snapshot", tally.snapshots.whole, True),
            ("incremental_snapshot", tally.snapshots.incremental, False),
        ):
            tables = [table for table in self._tables() if table.target.as_initial is initial]
            self._snapshot(context, course, tables)
            if not initial:
                self._chunk(context, tables)
        yield from self._families.values()

    def _tables(self) -> tuple[Table, ...]:
        seen = self._monitor.tally.seen
        return seen.state.snapshot.tables if seen else ()

    def _streaming(self, tally: Tally) -> None:
        context, counts, lag = "streaming", tally.counts, tally.lag_ms
        self._since(context, tally.last_event_s)
        for name, value in {
            "total_number_of_events_seen": tally.entries,
            "total_number_of_create_events_seen": counts.creates,
            "total_number_of_update_events_seen": counts.updates,
            "total_number_of_delete_events_seen": counts.deletes,
            "number_of_events_filtered": tally.filtered,
            "number_of_erroneous_events": tally.erroneous,
            "number_of_unchanged_events_skipped": 0,
            "connected": tally.log is not None,
            "milli_seconds_behind_source": self._monitor.lag_s * 1000,
            "milli_seconds_behind_source_min_value": lag.least if lag.count else 0.0,
            "milli_seconds_behind_source_max_value": lag.greatest,
            "milli_seconds_behind_source_average_value": lag.average,
            "milli_seconds_behind_source_p50": lag.at(0.50),
            "milli_seconds_behind_source_p95": lag.at(0.95),
            "milli_seconds_behind_source_p99": lag.at(0.99),
            "number_of_committed_transactions": counts.transactions,
            "number_of_disconnects": tally.disconnects,
        }.items():
            self._add(name, context, value)
        for name, value in self._monitor.figures().items():
            self._add(name, context, value)
        if counts.last_transaction is not None:
            self._add("last_transaction_id", context, counts.last_transaction)
        position = tally.seen.state.position if tally.seen else None
        for key, number in ({} if position is None else self._monitor.numbers(position)).items():
            self._add("source_event_position", context, number, key=key)
        self._captured(context)
        self._log_queue(context, tally)

    def _log_queue(self, context: str, tally: Tally) -> None:
        job = self._monitor.settings.job
        log: object = tally.log
        entries, size = log.ahead if isinstance(log, ReadsAhead) else (0, 0)
        self._add("queue_total_capacity", context, job.span_max_rows)
        self._add("queue_remaining_capacity", context, max(0, job.span_max_rows - entries))
        self._add("max_queue_size_in_bytes", context, job.span_max_bytes)
        self._add("current_queue_size_in_bytes", context, size)

    def _snapshot(self, context: str, course: Course, tables: list[Table]) -> None:
        tally, job = self._monitor.tally, self._monitor.settings.job
        window_bytes = job.window_max_bytes or WINDOW_BYTES
        windows = [window for window in tally.windows if window.as_initial is (context == "snapshot")]
        self._since(context, course.last_s)
        streams = tally.sessions > 0
        for name, value in {
            "total_number_of_events_seen": course.read,
            "number_of_events_filtered": course.read - course.emitted,
            "number_of_erroneous_events": 0,
            "queue_total_capacity": _AT_ONCE,
            "queue_remaining_capacity": max(0, _AT_ONCE - len(windows)),
            "max_queue_size_in_bytes": max(_AT_ONCE * window_bytes, tally.staged_bytes),
            "current_queue_size_in_bytes": tally.staged_bytes if windows else 0,
            "total_table_count": course.total,
            "remaining_table_count": len(tables),
            "snapshot_running": course.running,
            "snapshot_paused": course.paused_since_s is not None,
            "snapshot_aborted": course.begun_s is not None and not course.running and not course.completed,
            "snapshot_completed": course.completed,
            "snapshot_skipped": streams and course.begun_s is None,
            "snapshot_duration_in_seconds": course.duration_s(self._now_s),
            "snapshot_paused_duration_in_seconds": course.paused_s(self._now_s),
        }.items():
            self._add(name, context, value)
        if self._monitor.plugin == "mongodb":  # an attribute of that connector's MBean alone
            self._add("number_of_disconnects", context, tally.disconnects)
        self._captured(context)
        self._by_table(context, course, tables[:MOST_NAMED])

    def _by_table(self, context: str, course: Course, tables: list[Table]) -> None:
        """Rows and chunks of each collection; those that are in the queue replace what is remembered."""
        rows = {str(collection): count for collection, count in tuple(course.rows.items())}
        done = {str(collection): count for collection, count in tuple(course.chunks.items())}
        chunks = dict(done)
        for table in tables:
            if table.progress is not None:
                name = str(table.target.collection)
                rows[name], done[name] = table.progress.rows, table.progress.chunks
                asked = ceil(table.progress.extent.asked_rows / self._monitor.settings.snapshot.chunk_size)
                chunks[name] = max(asked, 1, done[name])
        self._maps(context, rows_scanned=rows, table_chunk_counts=chunks, table_chunks_completed_counts=done)

    def _maps(self, context: str, **values: Mapping[str, int]) -> None:
        for name, by_table in values.items():
            self._family(name, "table")
            for table, count in by_table.items():
                self._add(name, context, count, table=table)

    def _chunk(self, context: str, tables: list[Table]) -> None:
        tally = self._monitor.tally
        reading = {run.ticket for window in tally.windows for run in window.runs}
        table = next((table for table in tables if table.ticket in reading), None)
        if table is None:
            table = next((table for table in tables if table.progress is not None), None)
        parts = segments(table, tally.windows, self._monitor.settings.snapshot.chunk_size) if table else ()
        start, end = chunk_ends(parts) or (0.0, 0.0)
        self._add("chunk_id", context, tally.opened_windows)
        self._add("chunk_from", context, start)
        self._add("chunk_to", context, end)
        self._add("table_from", context, 0.0)
        self._add("table_to", context, 1.0 if table else 0.0)

    def _captured(self, context: str) -> None:
        self._family("captured_tables", "table")
        for collection in sorted(self._monitor.tally.captured)[:MOST_NAMED]:
            self._add("captured_tables", context, 1, table=str(collection))

    def _since(self, context: str, last_s: float | None) -> None:
        since_s = -1.0 if last_s is None else max(0.0, self._now_s - last_s)
        self._add("last_event", context, last_s or 0.0)
        self._add("milli_seconds_since_last_event", context, since_s * 1000 if last_s is not None else -1)

    def _family(self, name: str, label: str = "") -> GaugeMetricFamily:
        if name not in self._families:
            labels = [*_LABELS, *([label] if label else [])]
            self._families[name] = GaugeMetricFamily(
                PREFIX + name, f"Debezium's {_attribute(name)}", labels=labels
            )
        return self._families[name]

    def _add(self, name: str, context: str, value: float, **label: str) -> None:
        labels = [self._monitor.plugin, self._monitor.settings.events.topic_prefix, context, *label.values()]
        self._family(name, next(iter(label), "")).add_metric(labels, float(value))


def _attribute(name: str) -> str:
    """The MBean's attribute: `rows_scanned` is RowsScanned."""
    return "".join(word.capitalize() for word in name.split("_"))
