"""What the relational sources' settings have in common: events, table lists, snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.config.column_masks import column_masks
from engine.config.connect import CONNECT
from engine.config.connector import RELATIONAL, ROWS
from engine.config.own import OWN_OF_OTHERS
from engine.config.settings import (
    CaptureSettings,
    Conditions,
    GeneratedColumns,
    SnapshotMode,
    SnapshotRestart,
    SnapshotSettings,
    Watermarking,
)
from engine.events.settings import (
    BinaryMode,
    DecimalMode,
    EventSettings,
    HeaderConverter,
    NameAdjustment,
    TimeMode,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.config.row import Property
    from engine.config.values import Values


def event_settings(v: Values, database: str, signal_collection: str) -> EventSettings:
    """The settings that shape events."""
    return EventSettings(
        topic_prefix=v.get("topic.prefix", str),
        database=database,
        topic_delimiter=v.get("topic.delimiter", str),
        transaction_topic=v.get("topic.transaction", str),
        heartbeat_prefix=v.get("topic.heartbeat.prefix", str),
        key_schemas=v.get("key.converter.schemas.enable", bool),
        value_schemas=v.get("value.converter.schemas.enable", bool),
        header_converter=v.get("header.converter", HeaderConverter),
        header_schemas=v.get("header.converter.schemas.enable", bool),
        tombstones=v.get("tombstones.on.delete", bool),
        skipped_operations=v.get("skipped.operations", frozenset),
        transaction_metadata=v.get("provide.transaction.metadata", bool),
        decimals=v.get("decimal.handling.mode", DecimalMode),
        binary=v.get("binary.handling.mode", BinaryMode),
        times=v.get("time.precision.mode", TimeMode),
        replace_null_with_default=v.get("value.converter.replace.null.with.default", bool),
        schema_names=v.get("schema.name.adjustment.mode", NameAdjustment),
        sanitize_fields=v.get("sanitize.field.names", bool),
        include_columns=v.get("column.include.list", tuple),
        exclude_columns=v.get("column.exclude.list", tuple),
        message_keys=v.get("message.key.columns", tuple),
        masks=column_masks(v),
        propagate_columns=v.get("column.propagate.source.type", tuple),
        propagate_types=v.get("datatype.propagate.source.type", tuple),
        signal_collection=signal_collection,
    )


def capture_settings(v: Values) -> CaptureSettings:
    """The lists of schemas and tables."""
    return CaptureSettings(
        include_schemas=v.get("schema.include.list", tuple),
        exclude_schemas=v.get("schema.exclude.list", tuple),
        include_tables=v.get("table.include.list", tuple),
        exclude_tables=v.get("table.exclude.list", tuple),
    )


def snapshot_settings(v: Values) -> SnapshotSettings:
    """The settings of snapshots, initial and incremental."""
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
        generated_columns=v.get("tidemark.snapshot.generated.columns", GeneratedColumns),
        conditions=v.get("tidemark.snapshot.conditions", Conditions),
    )


def rows(own: tuple[Property, ...]) -> tuple[Property, ...]:
    """A relational source's own rows, and those that it shares with the others."""
    mine = {row.name for row in own} | {"slot.drop_on_stop", "toasted.value.placeholder"}
    signals = [row for row in ROWS if row.name.startswith("signal.")]
    shared = [*(row for row in ROWS if row.name in RELATIONAL), *signals, *OWN_OF_OTHERS, *CONNECT]
    return (*own, *(row for row in shared if row.name not in mine))


def problems(values: Values) -> Iterator[str]:
    """Yield the faults that involve more than one property."""
    yield from _both_lists(values)
    yield from _overrides(values)


def _both_lists(values: Values) -> Iterator[str]:
    for kind in ("schema", "table", "column", "message.prefix"):
        include, exclude = f"{kind}.include.list", f"{kind}.exclude.list"
        if include in values.typed and values.get(include, tuple) and values.get(exclude, tuple):
            yield f"{include!r} and {exclude!r} exclude each other; give one of them"


def _overrides(values: Values) -> Iterator[str]:
    listed = values.get("snapshot.select.statement.overrides", tuple)
    for table in listed:
        name = f"snapshot.select.statement.overrides.{table}"
        if name not in values.given:
            yield f"missing {name!r}: 'snapshot.select.statement.overrides' names the table"
