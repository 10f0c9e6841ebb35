"""Batches of typed events, as a source gives them to a sink that takes columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from adapters.jdbc.placeholders import Placeholders
from engine.events.record.envelope import envelope_schema, source_schema
from engine.events.record.schema import INT32, STRING, RecordSchemas, Schema, struct
from engine.events.record.typed import arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPIC = "tm.public.t"
KEY = struct("Key", ("id", INT32))
ROW = struct("Value", ("id", INT32), ("note", STRING.nullable()), ("text", STRING.nullable()), optional=True)
SOURCE = source_schema("postgresql", ("schema", STRING), ("table", STRING))
MISSING = "__debezium_unavailable_value"
PLACEHOLDERS = Placeholders(MISSING, MISSING.encode())
SEEN = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "t"}


def schemas(row: Schema = ROW, key: Schema | None = KEY) -> RecordSchemas:
    return RecordSchemas(key, envelope_schema("Envelope", row, SOURCE))


def typed(
    *events: tuple[str | None, dict[str, Any] | None, Any],
    orders: Sequence[int | None] | None = None,
    headers: Sequence[str | None] = (),
    row: Schema = ROW,
    key: Schema | None = KEY,
    topic: str = TOPIC,
) -> pa.RecordBatch:
    """A batch of `(op, key, row after)`; an op of None is a tombstone."""
    made = schemas(row, key)
    fields = [
        pa.field("order", pa.int64()),
        pa.field("key", pa.null()) if key is None else _field("key", key),
        *(_field(name, schema) for name, schema in made.envelope.fields),
        pa.field("headers", pa.large_string()),
    ]
    count = len(events)
    columns: dict[str, list[Any]] = {
        "order": list(orders or range(count)),
        "key": [key for _op, key, _after in events],
        "op": [op for op, _key, _after in events],
        "after": [after for _op, _key, after in events],
        "source": [None if op is None else SEEN for op, _key, _after in events],
        "headers": list(headers) or [None] * count,
    }
    arrays = [pa.array(columns.get(field.name, [None] * count), field.type) for field in fields]
    collection = orjson.dumps(topic.split(".")[1:])
    return pa.RecordBatch.from_arrays(
        arrays, schema=pa.schema(fields, {"topic": topic, "collection": collection})
    )


def _field(name: str, schema: Schema) -> pa.Field:
    return pa.field(name, arrow_type(schema), metadata={"schema": schema.json()})


def change(op: str, number: int, note: str | None = "n", text: str | None = "t") -> Any:
    """An event of the row `number`."""
    after = None if op in {"d", "t"} else {"id": number, "note": note, "text": text}
    return op, None if op == "t" else {"id": number}, after
