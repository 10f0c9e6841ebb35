"""Properties in, `Settings` out: the one place where a property's name is tied to its use.

Composes the settings and collects all problems in one ConfigError. The catalogue has shapes, defaults and
kinds; `checks` finds contradictions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from engine.config import checks, mongodb, relational, sqlserver
from engine.config.catalogue import MONGODB, POSTGRES, SQLSERVER, catalogue_of
from engine.config.driver import OPTIONS
from engine.config.files import read_file
from engine.config.settings import (
    CaptureSettings,
    Destination,
    JobSettings,
    Settings,
    SinkAhead,
    SinkKind,
    SinkSettings,
    SnapshotMode,
    SnapshotSettings,
    Source,
    StateForm,
    TableErrors,
)
from engine.config.signals import idle_signals, read_signals
from engine.config.sources import Autocreate, PostgresSettings, SchemaRefresh, SslMode
from engine.config.topics import kafka_names, read_kafka
from engine.config.values import Values, read_values
from engine.errors import ConfigError
from engine.events.settings import (
    EventSettings,
    Fault,
    HstoreMode,
    IntervalMode,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


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
    foreign = checks.connector_problem(properties)
    if foreign:
        raise ConfigError(*problems, foreign)
    values = read_values(properties, catalogue_of(properties), unresolved)
    settings = _compose(values)
    found = (*problems, *values.problems, *checks.problems(values))
    if found:
        raise ConfigError(*dict.fromkeys(found))
    return settings


def _compose(values: Values) -> Settings:
    events, source, capture, snapshot = _of_the_source(values)
    return Settings(
        name=values.get("name", str) or values.get("topic.prefix", str),
        events=events,
        source=source,
        capture=capture,
        snapshot=snapshot,
        signals=read_signals(values).settings,
        sink=_sink(values),
        job=_job(values),
        warnings=tuple(_warnings(values)),
    )


def _of_the_source(values: Values) -> tuple[EventSettings, Source, CaptureSettings, SnapshotSettings]:
    if values.catalogue is MONGODB:
        return (
            mongodb.event_settings(values),
            mongodb.mongo_settings(values),
            mongodb.capture_settings(values),
            mongodb.snapshot_settings(values),
        )
    capture, snapshot = relational.capture_settings(values), relational.snapshot_settings(values)
    if values.catalogue is SQLSERVER:
        return sqlserver.event_settings(values), sqlserver.sqlserver_settings(values), capture, snapshot
    return _events(values), _postgres(values), capture, snapshot


def _events(v: Values) -> EventSettings:
    signal_table = v.typed["signal.data.collection"]
    return replace(
        relational.event_settings(
            v, v.get("database.dbname", str), str(signal_table) if signal_table else ""
        ),
        intervals=v.get("interval.handling.mode", IntervalMode),
        hstore=v.get("hstore.handling.mode", HstoreMode),
        money_fraction_digits=v.get("money.fraction.digits", int),
        unavailable_value=v.get("unavailable.value.placeholder", bytes),
        include_unknown_types=v.get("include.unknown.datatypes", bool),
        include_message_prefixes=v.get("message.prefix.include.list", tuple),
        exclude_message_prefixes=v.get("message.prefix.exclude.list", tuple),
        kept_faults=frozenset(map(Fault, v.get("tidemark.keep.debezium.faults", frozenset))),
    )


def _postgres(v: Values) -> PostgresSettings:
    return PostgresSettings(
        host=v.get("database.hostname", str),
        port=v.get("database.port", int),
        user=v.get("database.user", str),
        password=v.get("database.password", str),
        database=v.get("database.dbname", str),
        ssl_mode=v.get("database.sslmode", SslMode),
        ssl_cert=v.get("database.sslcert", str),
        ssl_key=v.get("database.sslkey", str),
        ssl_password=v.get("database.sslpassword", str),
        ssl_root_cert=v.get("database.sslrootcert", str),
        tcp_keepalive=v.get("database.tcpKeepAlive", bool),
        query_timeout_ms=v.get("database.query.timeout.ms", int),
        initial_statements=v.get("database.initial.statements", tuple),
        driver={
            name: v.get(f"database.{name}", str) for name in sorted(OPTIONS) if f"database.{name}" in v.given
        },
        slot=v.get("slot.name", str),
        drop_slot_on_stop=v.get("slot.drop.on.stop", bool),
        slot_failover=v.get("slot.failover", bool),
        slot_max_retries=v.get("slot.max.retries", int),
        slot_retry_delay_ms=v.get("slot.retry.delay.ms", int),
        stream_params=v.get("slot.stream.params", tuple),
        publication=v.get("publication.name", str),
        publication_autocreate=v.get("publication.autocreate.mode", Autocreate),
        publish_via_partition_root=v.get("publish.via.partition.root", bool),
        acknowledge=v.get("flush.lsn.source", bool),
        status_interval_ms=v.get("status.update.interval.ms", int),
        xmin_interval_ms=v.get("xmin.fetch.interval.ms", int),
        schema_refresh=v.get("schema.refresh.mode", SchemaRefresh),
        wal_warn_bytes=v.get("tidemark.wal.warn.bytes", int),
    )


def _sink(v: Values) -> SinkSettings:
    return SinkSettings(
        kind=v.get("tidemark.sink", SinkKind),
        directory=v.get("tidemark.sink.files.dir", str),
        mode=v.get("tidemark.sink.files.mode", int) or None,
        ahead=v.get("tidemark.sink.ahead", SinkAhead),
        destination=v.get("tidemark.destination", Destination),
        kafka=read_kafka(v).settings,
    )


def _job(v: Values) -> JobSettings:
    return JobSettings(
        checkpoint=v.get("tidemark.checkpoint", str) or None,
        state_form=v.get("tidemark.state.form", StateForm),
        staging=v.get("tidemark.staging.dir", str) or None,
        lease_wait=v.get("tidemark.lease.wait", bool),
        lease_ttl_ms=v.get("tidemark.lease.ttl.ms", int),
        table_errors=v.get("tidemark.table.errors", TableErrors),
        letters=v.get("tidemark.dead.letter.dir", str) or None,
        letters_max_bytes=v.get("tidemark.dead.letter.max.bytes", int),
        spark_master=v.get("tidemark.spark.master", str) or None,
        spark_conf={parts[0]: cast("str", value) for parts, value in v.group("tidemark.spark.conf.<option>")},
        window_seconds=v.get("tidemark.window.seconds", float),
        window_max_bytes=v.get("tidemark.window.max.bytes", int),
        window_max_chunks=v.get("tidemark.window.max.chunks", int),
        window_local_rows=v.get("tidemark.window.local.rows", int),
        span_max_rows=v.get("tidemark.span.max.rows", int),
        span_max_bytes=v.get("tidemark.span.max.bytes", int),
        max_queued=v.get("tidemark.signals.max.queued", int),
        max_lag_ms=v.get("tidemark.max.lag.ms", int),
        progress_interval_ms=v.get("tidemark.progress.interval.ms", int),
        heartbeat_interval_ms=v.get("heartbeat.interval.ms", int),
        heartbeat_query=v.get("heartbeat.action.query", str),
        restart_wait_ms=v.get("retriable.restart.connector.wait.ms", int),
        max_retries=v.get("errors.max.retries", int),
    )


def _warnings(v: Values) -> list[str]:
    lines = []
    idle = list(v.without_effect)
    idle += idle_signals(v)
    if v.get("tidemark.sink", SinkKind) is not SinkKind.KAFKA:
        idle += (f"{name} (tidemark.sink is not kafka)" for name in kafka_names(v))
    if idle:
        lines.append("without effect here: " + ", ".join(idle))
    if v.get("snapshot.mode", SnapshotMode) is SnapshotMode.EXPORTED:
        lines.append("'snapshot.mode' 'exported' is deprecated; it does what 'initial' does")
    if v.catalogue is MONGODB and (line := mongodb.unused_of_the_string(v)):
        lines.append(line)
    if not v.get("tidemark.checkpoint", str):
        lines.append(
            "'tidemark.checkpoint' is missing: the state goes into a temporary directory and is lost"
        )
    if v.catalogue is POSTGRES and "database.sslmode" not in v.given and not _is_here(v):
        lines.append(
            "'database.sslmode' is not given: rows and passwords travel in the clear, as with Debezium;"
            " set it to verify-full, or to disable if that is meant"
        )
    return lines


def _is_here(v: Values) -> bool:
    """Whether the database is on this machine."""
    host = v.get("database.hostname", str)
    return host == "localhost" or host.startswith("127.") or host == "::1"
