"""The schemas and the source block of MongoDB events, as Debezium 2.1.4 writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.events.record.envelope import PLAIN, TRANSACTION_BLOCK, source_head, source_schema
from engine.events.record.schema import INT32, INT64, STRING, Schema, array, struct
from engine.events.values.json_text import quote
from engine.snapshot.markers import Marker

if TYPE_CHECKING:
    from engine.events.settings import EventSettings
    from engine.model import CollectionId

CONNECTOR = "mongodb"
SOURCE = source_schema(
    "mongo",
    ("rs", STRING),
    ("collection", STRING),
    ("ord", INT32),
    ("lsid", STRING.nullable()),
    ("txnNumber", INT64.nullable()),
)
JSON = Schema("string", optional=True, name="io.debezium.data.Json", version=1)
TRUNCATED_ARRAY = struct(
    "io.debezium.connector.mongodb.changestream.truncatedarray",
    ("field", STRING),
    ("size", INT32),
    version=1,
)
UPDATE_DESCRIPTION = struct(
    "io.debezium.connector.mongodb.changestream.updatedescription",
    ("removedFields", array(STRING).nullable()),
    ("updatedFields", JSON),
    ("truncatedArrays", array(TRUNCATED_ARRAY).nullable()),
    version=1,
    optional=True,
)


def key_schema(name: str) -> Schema:
    """The schema of a collection's keys."""
    return struct(name, ("id", STRING))


def envelope_schema(name: str) -> Schema:
    """The schema of a collection's values. `patch` and `filter` remain from older versions."""
    return struct(
        name,
        ("before", JSON),
        ("after", JSON),
        ("patch", JSON),
        ("filter", JSON),
        ("updateDescription", UPDATE_DESCRIPTION),
        ("source", SOURCE),
        ("op", STRING.nullable()),
        ("ts_ms", INT64.nullable()),
        ("transaction", TRANSACTION_BLOCK),
    )


def source_collection(collection: CollectionId, replica_set: str, snapshot: str = "false") -> str:
    """The part of the source block between the time and the ordinal."""
    database, name = collection.parts
    return (
        f',"snapshot":"{snapshot}","db":{quote(database)},"sequence":null,"rs":{quote(replica_set)}'
        f',"collection":{quote(name)},"ord":'
    )


def read_source(
    settings: EventSettings, collection: CollectionId, replica_set: str, at: tuple[int, int], snapshot: str
) -> str:
    """The complete source block of READ events as of a cluster time."""
    seconds, ordinal = at
    middle = source_collection(collection, replica_set, snapshot)
    at_ms = seconds * 1000  # 0 before anything was streamed
    return f'{source_head(CONNECTOR, settings)}{at_ms}{middle}{ordinal},"lsid":null,"txnNumber":null}}'


def marked_sources(
    settings: EventSettings, collection: CollectionId, replica_set: str, at: tuple[int, int], snapshot: str
) -> dict[str, str]:
    """The source blocks of READ events with a snapshot marker, by marker; only initial ones have any."""
    if snapshot != PLAIN:
        return {}
    return {marker: read_source(settings, collection, replica_set, at, marker) for marker in Marker}
