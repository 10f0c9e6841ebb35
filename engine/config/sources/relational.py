"""What only the relational sources read: columns, key columns, SELECTs of tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.config.sources import every_source, overrides
from engine.config.sources.column_masks import column_masks
from engine.config.sources.connector import RELATIONAL
from engine.events.settings import (
    BinaryMode,
    DecimalMode,
    HeaderConverter,
    TimeMode,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.config.properties.row import Property
    from engine.config.properties.values import Values
    from engine.config.settings import SnapshotSettings
    from engine.config.sources.selection import CaptureSettings
    from engine.events.settings import EventSettings


def event_settings(v: Values, database: str, signal_collection: str) -> EventSettings:
    """The settings that shape events."""
    return replace(
        every_source.event_settings(v, database, signal_collection),
        header_converter=v.get("header.converter", HeaderConverter),
        header_schemas=v.get("header.converter.schemas.enable", bool),
        decimals=v.get("decimal.handling.mode", DecimalMode),
        binary=v.get("binary.handling.mode", BinaryMode),
        times=v.get("time.precision.mode", TimeMode),
        replace_null_with_default=v.get("value.converter.replace.null.with.default", bool),
        sanitize_fields=v.get("sanitize.field.names", bool),
        include_columns=v.get("column.include.list", tuple),
        exclude_columns=v.get("column.exclude.list", tuple),
        message_keys=v.get("message.key.columns", tuple),
        masks=column_masks(v),
        propagate_columns=v.get("column.propagate.source.type", tuple),
        propagate_types=v.get("datatype.propagate.source.type", tuple),
    )


def capture_settings(v: Values) -> CaptureSettings:
    """The lists of schemas and tables."""
    return every_source.capture_settings(v, "schema", "table")


def snapshot_settings(v: Values, *, brackets: bool = False) -> SnapshotSettings:
    """The settings of snapshots, initial and incremental. With `brackets`, these may quote a table's name."""
    return replace(
        every_source.snapshot_settings(v),
        select_overrides=overrides.selects(v, brackets=brackets),
        lock_timeout_ms=v.get("snapshot.lock.timeout.ms", int),
    )


def rows(own: tuple[Property, ...]) -> tuple[Property, ...]:
    """A relational source's own rows, and those that it shares with the others."""
    return every_source.rows_with(own, RELATIONAL)


def problems(values: Values) -> Iterator[str]:
    """Yield the faults that involve more than one property."""
    yield from every_source.contradictions(values, "schema", "table", "column")
    yield from overrides.problems(values, overrides.SELECTS)


def warnings(values: Values) -> Iterator[str]:
    """Yield what has no effect and may have been meant to have one."""
    yield from overrides.warnings(values, overrides.SELECTS)
