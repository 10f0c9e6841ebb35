"""The source block of SQL Server events: database, table, and the change's place in the log."""

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

CONNECTOR = "sqlserver"
SOURCE = source_schema(
    "sqlserver",
    ("schema", STRING),
    ("table", STRING),
    ("change_lsn", STRING.nullable()),
    ("commit_lsn", STRING.nullable()),
    ("event_serial_no", INT64.nullable()),
)


def source_table(collection: CollectionId, snapshot: str = "false") -> str:
    """The part of the source block between the time and the change's LSN."""
    database, schema, table = map(quote, collection.parts)
    return (
        f',"snapshot":"{snapshot}","db":{database},"sequence":null,"schema":{schema},"table":{table}'
        ',"change_lsn":'
    )


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """The position in the source block of READs and schema changes.

    `ts_ms` is the source's time, the rest the log's. Incremental READs have the position of the last streamed
    change, as in Debezium. Initial ones have the snapshot's commit LSN only, with `snapshot` "true". `serial`
    is `event_serial_no`.
    """

    ts_ms: int
    commit: str | None = None
    change: str | None = None
    serial: int | None = None
    snapshot: str = "incremental"


def read_source(settings: EventSettings, collection: CollectionId, position: ReadPosition) -> str:
    """The complete source block of a collection's events at a position."""
    middle = f'{_text(position.change)},"commit_lsn":{_text(position.commit)}'
    serial = "null" if position.serial is None else str(position.serial)
    head = f"{source_head(CONNECTOR, settings)}{position.ts_ms}{source_table(collection, position.snapshot)}"
    return f'{head}{middle},"event_serial_no":{serial}}}'


def marked_sources(
    settings: EventSettings, collection: CollectionId, position: ReadPosition
) -> dict[str, str]:
    """The source blocks of READ events with a snapshot marker, by marker; only initial ones have any."""
    if position.snapshot != PLAIN:
        return {}
    return {
        marker: read_source(settings, collection, replace(position, snapshot=marker)) for marker in Marker
    }


def _text(lsn: str | None) -> str:
    return "null" if lsn is None else quote(lsn)
