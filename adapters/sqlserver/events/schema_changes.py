"""Schema changes of captured tables, and their events. Pure.

The events go to the topic named by the prefix, keyed by the database's name. Their schemas and fields are
those of Debezium 2.1.4. `ddl` is always null, since CDC has no DDL. Columns are described as by Microsoft's
JDBC driver, except that `autoIncremented` is always false, as in the reference document.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from adapters.sqlserver.events.jdbc_types import jdbc_column
from adapters.sqlserver.events.source_block import SOURCE, read_source
from adapters.sqlserver.server.position import ZERO
from engine.events.names import schema_topic
from engine.events.record.assemble import EventGroup, event_batch
from engine.events.record.schema import BOOLEAN, INT32, INT64, STRING, array, struct, with_schema
from engine.events.values.json_text import json_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.sqlserver.events.source_block import ReadPosition
    from adapters.sqlserver.server.table import Column, Table
    from engine.events.settings import EventSettings
    from engine.model import CollectionId

_TURN = -3
"""Sorts before a message's events, and before the BEGIN and END ahead of them."""

KEY = struct("io.debezium.connector.sqlserver.SchemaChangeKey", ("databaseName", STRING), version=1)
_COLUMN = struct(
    "io.debezium.connector.schema.Column",
    ("name", STRING),
    ("jdbcType", INT32),
    ("nativeType", INT32.nullable()),
    ("typeName", STRING),
    ("typeExpression", STRING.nullable()),
    ("charsetName", STRING.nullable()),
    ("length", INT32.nullable()),
    ("scale", INT32.nullable()),
    ("position", INT32),
    ("optional", BOOLEAN.nullable()),
    ("autoIncremented", BOOLEAN.nullable()),
    ("generated", BOOLEAN.nullable()),
    ("comment", STRING.nullable()),
    ("defaultValueExpression", STRING.nullable()),
    ("enumValues", array(STRING).nullable()),
    version=1,
)
_TABLE = struct(
    "io.debezium.connector.schema.Table",
    ("defaultCharsetName", STRING.nullable()),
    ("primaryKeyColumnNames", array(STRING).nullable()),
    ("columns", array(_COLUMN)),
    ("comment", STRING.nullable()),
    version=1,
)
_CHANGE = struct(
    "io.debezium.connector.schema.Change", ("type", STRING), ("id", STRING), ("table", _TABLE), version=1
)
VALUE = struct(
    "io.debezium.connector.sqlserver.SchemaChangeValue",
    ("source", SOURCE),
    ("ts_ms", INT64),
    ("databaseName", STRING.nullable()),
    ("schemaName", STRING.nullable()),
    ("ddl", STRING.nullable()),
    ("tableChanges", array(_CHANGE)),
    version=1,
)


class ChangeType(StrEnum):
    """What happened to a table."""

    CREATE = "CREATE"
    ALTER = "ALTER"
    DROP = "DROP"


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """The table's change rows have this shape from `position.commit` on. A dropped table has its last shape.

    `now_ms` is the time of the event.
    """

    type: ChangeType
    table: Table
    position: ReadPosition
    now_ms: int

    @property
    def commit(self) -> str:
        """The commit LSN from which the change applies."""
        return self.position.commit or ZERO


def schema_changes(changes: Sequence[SchemaChange], settings: EventSettings) -> pa.RecordBatch:
    """The events of these changes, in order."""
    return event_batch(
        [schema_change_group(change, number, settings) for number, change in enumerate(changes)]
    )


def schema_change_group(change: SchemaChange, message: int, settings: EventSettings) -> EventGroup:
    """The event of a change. It comes before all other events of message number `message`."""
    before, after = with_schema(KEY, enabled=settings.key_schemas)
    key = f"{before}{json_text({'databaseName': change.table.id.parts[0]})}{after}"
    before, after = with_schema(VALUE, enabled=settings.value_schemas)
    value = f"{before}{_payload(change, settings)}{after}"
    text = pa.large_string()
    return EventGroup(
        schema_topic(settings),
        np.array([message], np.int64),
        _TURN,
        pa.array([key], text),
        pa.array([value], text),
    )


def _payload(change: SchemaChange, settings: EventSettings) -> str:
    table = change.table
    database, schema, _name = table.id.parts
    rest = json_text(
        {
            "ts_ms": change.now_ms,
            "databaseName": database,
            "schemaName": schema,
            "ddl": None,
            "tableChanges": [
                {"type": change.type, "id": quoted_name(table.id), "table": _table_members(table)}
            ],
        }
    )
    return f'{{"source":{read_source(settings, table.id, change.position)},{rest[1:]}'


def quoted_name(collection: CollectionId) -> str:
    """A table's name with each part in double quotes."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in collection.parts)


def _table_members(table: Table) -> dict[str, Any]:
    return {
        "defaultCharsetName": None,
        "primaryKeyColumnNames": list(table.key),
        "columns": [
            {
                **column_members(column, number),
                "comment": None,
                "defaultValueExpression": column.default,
                "enumValues": None,
            }
            for number, column in enumerate(table.columns, 1)
        ],
        "comment": None,
    }


def column_members(column: Column, place: int) -> dict[str, Any]:
    """A column's fields, the same in the schema topic and the schema history. `place` counts from 1."""
    seen = jdbc_column(column)
    return {
        "name": column.name,
        "jdbcType": seen.type,
        "nativeType": None,
        "typeName": seen.name,
        "typeExpression": seen.name,
        "charsetName": None,
        "length": seen.length,
        "scale": seen.scale,
        "position": column.position or place,
        "optional": column.nullable,
        "autoIncremented": False,
        "generated": column.computed,
    }
