"""What every source reads in the same way: its lists of tables, events' settings, snapshots' settings.

`relational` has what the relational sources read besides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.config.own import OWN
from engine.config.properties.row import IGNORED, Property
from engine.config.settings import (
    Conditions,
    NewCollections,
    Recovery,
    SnapshotMode,
    SnapshotRestart,
    SnapshotSettings,
    Watermarking,
)
from engine.config.sources.connect import CONNECT
from engine.config.sources.connector import ROWS
from engine.config.sources.selection import CaptureSettings
from engine.events.settings import EventSettings, NameAdjustment

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from engine.config.properties.values import Values

_OF_POSTGRES = tuple(
    Property(name, IGNORED, "applies to PostgreSQL only")
    for name in (
        *("tidemark.window.local.rows", "tidemark.snapshot.accept.risk"),
        *("tidemark.snapshot.generated.columns", "tidemark.log.streaming", "tidemark.wal.warn.bytes"),
        "tidemark.keep.debezium.faults",
    )
)
"""Properties of PostgreSQL's alone that files for other sources may have."""


def rows_with(own: tuple[Property, ...], shared: Collection[str]) -> tuple[Property, ...]:
    """A source's own rows, and those that it shares with PostgreSQL's connector, by name."""
    mine = {row.name for row in own}
    everyone = [row for row in ROWS if row.name.startswith(("signal.", "notification."))]
    others = [*(row for row in ROWS if row.name in shared), *everyone, *OWN, *_OF_POSTGRES, *CONNECT]
    return (*own, *(row for row in others if row.name not in mine))


def capture_settings(v: Values, outer: str, inner: str) -> CaptureSettings:
    """The lists of schemas and tables, or whatever `outer` and `inner` are called."""
    return CaptureSettings(
        include_schemas=v.get(f"{outer}.include.list", tuple),
        exclude_schemas=v.get(f"{outer}.exclude.list", tuple),
        include_tables=v.get(f"{inner}.include.list", tuple),
        exclude_tables=v.get(f"{inner}.exclude.list", tuple),
    )


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
        tombstones=v.get("tombstones.on.delete", bool),
        skipped_operations=v.get("skipped.operations", frozenset),
        transaction_metadata=v.get("provide.transaction.metadata", bool),
        schema_names=v.get("schema.name.adjustment.mode", NameAdjustment),
        signal_collection=signal_collection,
    )


def snapshot_settings(v: Values) -> SnapshotSettings:
    """The settings of snapshots, initial and incremental."""
    strategy = v.get("incremental.snapshot.watermarking.strategy", Watermarking)
    return SnapshotSettings(
        mode=v.get("snapshot.mode", SnapshotMode),
        restart=v.get("tidemark.snapshot.restart", SnapshotRestart),
        chunk_size=v.get("incremental.snapshot.chunk.size", int),
        fetch_size=v.get("snapshot.fetch.size", int),
        watermarking=Watermarking.VISIBILITY if v.get("read.only", bool) else strategy,
        max_threads=v.get("snapshot.max.threads", int),
        include_tables=v.get("snapshot.include.collection.list", tuple),
        delay_ms=v.get("snapshot.delay.ms", int),
        custom_name=v.get("snapshot.mode.custom.name", str) or v.get("snapshot.custom.class", str),
        conditions=v.get("tidemark.snapshot.conditions", Conditions),
        new=v.get("tidemark.snapshot.new", NewCollections),
        recovery=v.get("tidemark.recovery", Recovery),
    )


def contradictions(values: Values, *kinds: str) -> Iterator[str]:
    """Yield where both lists of what to include and to exclude are given; a source may lack some."""
    for kind in kinds:
        include, exclude = f"{kind}.include.list", f"{kind}.exclude.list"
        if include in values.typed and values.get(include, tuple) and values.get(exclude, tuple):
            yield f"{include!r} and {exclude!r} exclude each other; give one of them"
