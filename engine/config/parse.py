"""Properties in, `Settings` out: the one place where a property's name meets its use.

Owns composing the settings and gathering every problem into one ConfigError. Shapes, defaults
and kinds stand in the catalogue, contradictions in `checks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.config import checks, mongodb
from engine.config.catalogue import MONGODB
from engine.config.driver import OPTIONS
from engine.config.files import read_file
from engine.config.masks import column_masks
from engine.config.settings import (
    Autocreate,
    CaptureSettings,
    JobSettings,
    PostgresSettings,
    SchemaRefresh,
    Settings,
    SinkKind,
    SinkSettings,
    SnapshotMode,
    SnapshotRestart,
    SnapshotSettings,
    SslMode,
    Watermarking,
)
from engine.config.signals import idle_signals, read_signals
from engine.config.topics import kafka_names, read_kafka
from engine.config.values import Values, read_values
from engine.errors import ConfigError
from engine.events.settings import (
    BinaryMode,
    DecimalMode,
    EventSettings,
    Fault,
    HstoreMode,
    IntervalMode,
    NameAdjustment,
    TimeMode,
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
    values = read_values(properties, unresolved)
    settings = _compose(values)
    found = (*problems, *values.problems, *checks.problems(values))
    if found:
        raise ConfigError(*dict.fromkeys(found))
    return settings


def _compose(values: Values) -> Settings:
    is_mongodb = values.catalogue is MONGODB
    return Settings(
        name=values.get("name", str) or values.get("topic.prefix", str),
        events=mongodb.event_settings(values) if is_mongodb else _events(values),
        source=mongodb.mongo_settings(values) if is_mongodb else _postgres(values),
        capture=mongodb.capture_settings(values) if is_mongodb else _capture(values),
        snapshot=mongodb.snapshot_settings(values) if is_mongodb else _snapshot(values),
        signals=read_signals(values).settings,
        sink=_sink(values),
        job=_job(values),
        warnings=tuple(_warnings(values)),
    )


def _events(v: Values) -> EventSettings:
    signal_table = v.typed["signal.data.collection"]
    return EventSettings(
        topic_prefix=v.get("topic.prefix", str),
        database=v.get("database.dbname", str),
        topic_delimiter=v.get("topic.delimiter", str),
        transaction_topic=v.get("topic.transaction", str),
        heartbeat_prefix=v.get("topic.heartbeat.prefix", str),
        key_schemas=v.get("key.converter.schemas.enable", bool),
        value_schemas=v.get("value.converter.schemas.enable", bool),
        tombstones=v.get("tombstones.on.delete", bool),
        skipped_operations=v.get("skipped.operations", frozenset),
        transaction_metadata=v.get("provide.transaction.metadata", bool),
        decimals=v.get("decimal.handling.mode", DecimalMode),
        binary=v.get("binary.handling.mode", BinaryMode),
        times=v.get("time.precision.mode", TimeMode),
        intervals=v.get("interval.handling.mode", IntervalMode),
        hstore=v.get("hstore.handling.mode", HstoreMode),
        money_fraction_digits=v.get("money.fraction.digits", int),
        replace_null_with_default=v.get("value.converter.replace.null.with.default", bool),
        unavailable_value=v.get("unavailable.value.placeholder", str),
        include_unknown_types=v.get("include.unknown.datatypes", bool),
        schema_names=v.get("schema.name.adjustment.mode", NameAdjustment),
        field_names=v.get("field.name.adjustment.mode", NameAdjustment),
        sanitize_fields=v.get("sanitize.field.names", bool),
        include_columns=v.get("column.include.list", tuple),
        exclude_columns=v.get("column.exclude.list", tuple),
        message_keys=v.get("message.key.columns", tuple),
        masks=column_masks(v),
        propagate_columns=v.get("column.propagate.source.type", tuple),
        propagate_types=v.get("datatype.propagate.source.type", tuple),
        include_message_prefixes=v.get("message.prefix.include.list", tuple),
        exclude_message_prefixes=v.get("message.prefix.exclude.list", tuple),
        signal_collection=str(signal_table) if signal_table else "",
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


def _capture(v: Values) -> CaptureSettings:
    return CaptureSettings(
        include_schemas=v.get("schema.include.list", tuple),
        exclude_schemas=v.get("schema.exclude.list", tuple),
        include_tables=v.get("table.include.list", tuple),
        exclude_tables=v.get("table.exclude.list", tuple),
    )


def _snapshot(v: Values) -> SnapshotSettings:
    listed = v.get("snapshot.select.statement.overrides", tuple)
    selects = {parts[0]: str(sql) for parts, sql in v.group("snapshot.select.statement.overrides.<table>")}
    strategy = v.get("incremental.snapshot.watermarking.strategy", Watermarking)
    return SnapshotSettings(
        mode=v.get("snapshot.mode", SnapshotMode),
        restart=v.get("tidemark.snapshot.restart", SnapshotRestart),
        chunk_size=v.get("incremental.snapshot.chunk.size", int),
        fetch_size=v.get("snapshot.fetch.size", int),
        watermarking=Watermarking.VISIBILITY if v.get("read.only", bool) else strategy,
        allow_schema_changes=v.get("incremental.snapshot.allow.schema.changes", bool),
        max_threads=v.get("snapshot.max.threads", int),
        include_tables=v.get("snapshot.include.collection.list", tuple),
        select_overrides={table: selects[table] for table in listed if table in selects},
        delay_ms=v.get("snapshot.delay.ms", int),
        lock_timeout_ms=v.get("snapshot.lock.timeout.ms", int),
        custom_name=v.get("snapshot.mode.custom.name", str) or v.get("snapshot.custom.class", str),
        accept_risk=v.get("tidemark.snapshot.accept.risk", tuple),
    )


def _sink(v: Values) -> SinkSettings:
    return SinkSettings(
        kind=v.get("tidemark.sink", SinkKind),
        directory=v.get("tidemark.sink.files.dir", str),
        kafka=read_kafka(v).settings,
    )


def _job(v: Values) -> JobSettings:
    return JobSettings(
        checkpoint=v.get("tidemark.checkpoint", str) or None,
        staging=v.get("tidemark.staging.dir", str) or None,
        spark_master=v.get("tidemark.spark.master", str) or None,
        spark_conf={parts[0]: str(value) for parts, value in v.group("tidemark.spark.conf.<option>")},
        window_seconds=v.get("tidemark.window.seconds", float),
        window_max_bytes=v.get("tidemark.window.max.bytes", int),
        window_max_chunks=v.get("tidemark.window.max.chunks", int),
        window_local_rows=v.get("tidemark.window.local.rows", int),
        span_max_rows=v.get("tidemark.span.max.rows", int),
        span_max_bytes=v.get("tidemark.span.max.bytes", int),
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
    if not v.get("tidemark.checkpoint", str):
        lines.append(
            "'tidemark.checkpoint' is missing: the state goes into a temporary directory and is lost"
        )
    return lines
