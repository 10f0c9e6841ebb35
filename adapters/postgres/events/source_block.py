"""The source block of PostgreSQL's events: the position in the log, the table, the transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.events.record.envelope import PLAIN, source_head, source_schema
from engine.events.record.schema import INT64, STRING
from engine.events.values.json_text import quote
from engine.snapshot.markers import Marker

if TYPE_CHECKING:
    from engine.events.settings import EventSettings
    from engine.model import CollectionId

CONNECTOR = "postgresql"
SOURCE = source_schema(
    "postgresql",
    ("schema", STRING),
    ("table", STRING),
    ("txId", INT64.nullable()),
    ("lsn", INT64.nullable()),
    ("xmin", INT64.nullable()),
)


def source_snapshot(settings: EventSettings, snapshot: str = "false") -> str:
    """The block from after the time up to the sequence."""
    return f',"snapshot":"{snapshot}","db":{quote(settings.database)},"sequence":'


def source_table(schema: str, table: str) -> str:
    """The block from after the sequence up to the transaction."""
    return f',"schema":{quote(schema)},"table":{quote(table)},"txId":'


def sequence_text(last_commit_end: int | None, lsn: int | None) -> str:
    r"""The JSON string `"[\"A\",\"B\"]"` of the last commit's end and the entry's own position."""
    first, second = (
        "null" if position is None else f'\\"{position}\\"' for position in (last_commit_end, lsn)
    )
    return f'"[{first},{second}]"'


@dataclass(frozen=True, slots=True)
class Moment:
    """When events are made: `now_ms` is their `ts_ms`, `xmin` the slot's (None unless asked for)."""

    now_ms: int
    xmin: int | None = None


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """The position of READ events: `ts_ms` is the source's time, the rest are positions in the log.

    Incremental ones carry neither transaction nor lsn. Their sequence is the position where they are emitted:
    `last_commit_end` and `sequence_lsn`. Initial ones carry the snapshot's `tx_id` and `lsn`, the latter in
    the sequence, too.
    """

    ts_ms: int
    last_commit_end: int | None = None
    sequence_lsn: int | None = None
    tx_id: int | None = None
    lsn: int | None = None
    snapshot: str = "incremental"


def read_source(settings: EventSettings, collection: CollectionId, position: ReadPosition) -> str:
    """The whole source block of a collection's READ events."""
    lsn = position.lsn if position.sequence_lsn is None else position.sequence_lsn
    sequence = sequence_text(position.last_commit_end, lsn)
    before = f"{source_head(CONNECTOR, settings)}{position.ts_ms}"
    head = f"{before}{source_snapshot(settings, position.snapshot)}{sequence}"
    middle = f'{_number(position.tx_id)},"lsn":{_number(position.lsn)}{source_end()}'
    return head + source_table(*collection.parts) + middle


def marked_sources(
    settings: EventSettings, collection: CollectionId, position: ReadPosition
) -> dict[str, str]:
    """The source blocks of READ events with a snapshot marker, by marker; only initial ones have any."""
    if position.snapshot != PLAIN:
        return {}
    return {
        marker: read_source(settings, collection, replace(position, snapshot=marker)) for marker in Marker
    }


def source_end(xmin: int | None = None) -> str:
    """The block's end, from after the lsn."""
    return f',"xmin":{_number(xmin)}}}'


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)
