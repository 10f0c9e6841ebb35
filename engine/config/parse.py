"""Properties in, `Settings` out.

Reads the job's own settings, lets source, sink and channels read theirs, and collects all problems in one
ConfigError. The catalogue has shapes, defaults and kinds; `checks` finds contradictions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from engine.config import checks
from engine.config.catalogue import catalogue_of, channel_types, connector_of, sink_of, unknown_connector
from engine.config.http import http_settings, http_warnings, idle_http, lineage_settings
from engine.config.notifications import idle_notifications, notification_settings
from engine.config.plugins import SinkType
from engine.config.properties.values import Values, read_values
from engine.config.settings import (
    Certificate,
    JobSettings,
    Settings,
    SnapshotMode,
    StagingKind,
    StateForm,
    TableErrors,
)
from engine.config.signals import idle_signals, read_signals
from engine.config.sinks.against import read_against
from engine.config.sinks.settings import Destination, SinkAhead, SinkSettings
from engine.config.text.files import read_file
from engine.errors import ConfigError
from engine.model import Limit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from engine.config.plugins import SourceSettings
    from engine.config.settings import SignalSettings

_UNKNOWN: Final = SinkType((), lambda _values: None, "")
"""Stands in for a sink that is unknown, about which there is a problem already."""


def read(path: Path | str) -> Settings:
    """Read a configuration file, resolve its references and check everything.

    Raises ConfigError with every problem of the file and of its properties.
    """
    file = read_file(path)
    return _settings(file.properties, file.problems, file.unresolved)


def parse(properties: Mapping[str, str]) -> Settings:
    """Check properties and compose the settings. Raises ConfigError with every problem."""
    return _settings(properties, (), frozenset())


def _settings(properties: Mapping[str, str], problems: Iterable[str], unresolved: frozenset[str]) -> Settings:
    connector = connector_of(properties)
    if connector is None:
        raise ConfigError(*problems, unknown_connector(properties))
    values = read_values(properties, catalogue_of(properties), unresolved)
    sink = sink_of(properties) or _UNKNOWN
    signals, against = read_signals(values, channel_types(values.given)), read_against(values)
    settings = _compose(values, connector.read(values), signals.settings, _sink(values, sink))
    settings = replace(
        settings,
        job=replace(settings.job, against=against.targets),
        warnings=(
            *_warnings(values),
            *sink.warnings(settings.sink.own, settings.events),
            *connector.warnings(values),
        ),
        runs=connector.job,
    )
    checked = checks.problems(values, connector, signals.problems)
    found = (*problems, *values.problems, *against.problems, *checked)
    if found:
        raise ConfigError(*dict.fromkeys(found))
    return settings


def _compose(values: Values, read: SourceSettings, signals: SignalSettings, sink: SinkSettings) -> Settings:
    events, source, capture, snapshot = read
    return Settings(
        name=values.get("name", str) or values.get("topic.prefix", str),
        events=events,
        source=source,
        capture=capture,
        snapshot=snapshot,
        signals=signals,
        sink=sink,
        job=_job(values),
        notifications=notification_settings(values),
        http=http_settings(values),
        lineage=lineage_settings(values),
    )


def _sink(v: Values, kind: SinkType) -> SinkSettings:
    return SinkSettings(
        kind=v.get("tidemark.sink", str),
        own=kind.read(v),
        make=kind.make,
        ahead=v.get("tidemark.sink.ahead", SinkAhead),
        destination=v.get("tidemark.destination", Destination),
    )


def _job(v: Values) -> JobSettings:
    return JobSettings(
        checkpoint=v.get("tidemark.checkpoint", str) or None,
        state_form=v.get("tidemark.state.form", StateForm),
        certificates=v.get("tidemark.certificate", Certificate) is Certificate.ON,
        staging=v.get("tidemark.staging.dir", str) or None,
        staging_kind=v.get("tidemark.staging", StagingKind),
        lease_wait=v.get("tidemark.lease.wait", bool),
        lease_ttl_ms=v.get("tidemark.lease.ttl.ms", int),
        table_errors=v.get("tidemark.table.errors", TableErrors),
        letters=v.get("tidemark.dead.letter.dir", str) or None,
        letters_max_bytes=v.get("tidemark.dead.letter.max.bytes", int),
        spark_master=v.get("tidemark.spark.master", str) or None,
        spark_archive=v.get("tidemark.spark.archive", str) or None,
        spark_stalled_ms=v.get("tidemark.spark.stalled.ms", int),
        spark_conf={parts[0]: cast("str", value) for parts, value in v.group("tidemark.spark.conf.<option>")},
        window_seconds=v.get("tidemark.window.seconds", float),
        window_max_bytes=v.get("tidemark.window.max.bytes", int) or None,
        window_max_chunks=v.get("tidemark.window.max.chunks", int),
        span_max_rows=v.get("tidemark.span.max.rows", int),
        span_max_bytes=v.get("tidemark.span.max.bytes", int),
        max_queued=v.get("tidemark.signals.max.queued", int),
        blocking=v.get("tidemark.signals.blocking", bool),
        limit=Limit(
            v.get("tidemark.snapshot.max.rows.per.second", int) or None,
            v.get("tidemark.snapshot.max.bytes.per.second", int) or None,
        ),
        max_lag_ms=v.get("tidemark.max.lag.ms", int),
        progress_interval_ms=v.get("tidemark.progress.interval.ms", int),
        heartbeat_interval_ms=v.get("heartbeat.interval.ms", int),
        heartbeat_query=v.get("heartbeat.action.query", str),
        restart_wait_ms=v.get("retriable.restart.connector.wait.ms", int),
        max_retries=v.get("errors.max.retries", int),
        verify_settle_ms=v.get("tidemark.verify.settle.ms", int),
    )


def _warnings(v: Values) -> list[str]:
    lines = []
    idle = list(v.without_effect)
    idle += idle_signals(v)
    idle += idle_notifications(v)
    idle += idle_http(v)
    if idle:
        lines.append("without effect here: " + ", ".join(idle))
    lines += http_warnings(v)
    if v.get("snapshot.mode", SnapshotMode) is SnapshotMode.EXPORTED:
        lines.append("'snapshot.mode' 'exported' is deprecated; it does what 'initial' does")
    if not v.get("tidemark.checkpoint", str):
        lines.append(
            "'tidemark.checkpoint' is missing: the state goes into a temporary directory and is lost"
        )
    return lines
