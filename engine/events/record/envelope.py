"""The envelope around a row: its schema, and the text of a value from its parts.

`{"before":…,"after":…,"source":{…},"op":"c","ts_ms":…,"transaction":…}`; the source block and the
transaction block come ready as pieces of text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.events.record.schema import INT64, STRING, Schema, array, struct
from engine.events.values.json_text import quote

if TYPE_CHECKING:
    from engine.events.settings import EventSettings
    from engine.events.values.text import Piece

TRANSACTION_BLOCK = struct(
    "event.block",
    ("id", STRING),
    ("total_order", INT64),
    ("data_collection_order", INT64),
    version=1,
    optional=True,
)
TRANSACTION_KEY = struct("io.debezium.connector.common.TransactionMetadataKey", ("id", STRING), version=1)
TRANSACTION_VALUE = struct(
    "io.debezium.connector.common.TransactionMetadataValue",
    ("status", STRING),
    ("id", STRING),
    ("event_count", INT64.nullable()),
    (
        "data_collections",
        array(
            struct(
                "event.collection",
                ("data_collection", STRING),
                ("event_count", INT64),
                version=1,
                optional=True,
            ),
        ).nullable(),
    ),
    ("ts_ms", INT64),
    version=1,
)
SERVER_KEY = struct("io.debezium.connector.common.ServerNameKey", ("serverName", STRING), version=1)
HEARTBEAT = struct("io.debezium.connector.common.Heartbeat", ("ts_ms", INT64), version=1)
VERSION = "2.1.4.Final"
"""The version of Debezium whose events these are."""
SNAPSHOT = Schema(
    "string",
    optional=True,
    name="io.debezium.data.Enum",
    version=1,
    parameters=(("allowed", "true,last,false,incremental"),),
    default='"false"',
)
"""The source block's `snapshot`. The list of values is Debezium 2.1.4's, although it writes others too."""


def source_schema(package: str, *fields: tuple[str, Schema]) -> Schema:
    """The schema of a connector's source block: the common fields, then the connector's own."""
    return struct(
        f"io.debezium.connector.{package}.Source",
        ("version", STRING),
        ("connector", STRING),
        ("name", STRING),
        ("ts_ms", INT64),
        ("snapshot", SNAPSHOT),
        ("db", STRING),
        ("sequence", STRING.nullable()),
        *fields,
    )


def source_head(connector: str, settings: EventSettings) -> str:
    """The start of the source block, up to the time."""
    name = quote(settings.topic_prefix)
    return f'{{"version":"{VERSION}","connector":"{connector}","name":{name},"ts_ms":'


def envelope_schema(name: str, row: Schema, source: Schema) -> Schema:
    """The schema of a table's values; `row` is optional as a member."""
    return struct(
        name,
        ("before", row.nullable()),
        ("after", row.nullable()),
        ("source", source),
        ("op", STRING),
        ("ts_ms", INT64.nullable()),
        ("transaction", TRANSACTION_BLOCK),
        version=1,
    )


PLAIN = "true"
"""The `snapshot` value of an initial snapshot's row that is neither the first nor the last of anything."""


def value_pieces(
    before: list[Piece] | None, after: list[Piece] | None, source: list[Piece], op: str, tail: list[Piece]
) -> list[Piece]:
    """The payload of a value; `tail` is what follows `"ts_ms":`, up to the end of the object."""
    opened, closed = _affixes(before, source, op, tail)
    return [*opened, *(after or ["null"]), *closed]


def _affixes(
    before: list[Piece] | None, source: list[Piece], op: str, tail: list[Piece]
) -> tuple[list[Piece], list[Piece]]:
    opened: list[Piece] = ['{"before":', *(before or ["null"]), ',"after":']
    return opened, [',"source":', *source, f',"op":"{op}","ts_ms":', *tail]


def read_row_affixes(source_json: str, ts_ms: int) -> tuple[str, str]:
    """The payload of a READ's value before and after its row, the same for all rows of a run."""
    opened, closed = _affixes(None, [source_json], "r", [f'{ts_ms},"transaction":null}}'])
    return "".join(map(str, opened)), "".join(map(str, closed))


def delete_row_affixes(source_json: str, ts_ms: int) -> tuple[str, str]:
    """The payload of a delete's value before and after the row that it deletes."""
    _opened, closed = _affixes(None, [source_json], "d", [f'{ts_ms},"transaction":null}}'])
    return '{"before":', f',"after":null{"".join(map(str, closed))}'
