"""Typed events back to the records that they stand for, by the schemas that travel with them."""

from __future__ import annotations

import base64
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from engine.events.batch import EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterable

_TICKS = {"Timestamp": 1_000, "MicroTimestamp": 1_000_000, "NanoTimestamp": 1_000_000_000}
_SPECIAL = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def records(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """The records in log order, with keys and values as parsed JSON without schemas.

    Those of a batch of EVENTS come last.
    """
    found: list[tuple[int | None, dict[str, Any]]] = []
    rendered: list[dict[str, Any]] = []
    for batch in batches:
        if batch.schema == EVENTS:
            rendered += [_parsed(event) for event in batch.to_pylist()]
        else:
            found += [(event["order"], _record(event, batch.schema)) for event in batch.to_pylist()]
    if all(order is not None for order, _event in found):
        found.sort(key=lambda pair: pair[0] or 0)
    return [event for _order, event in found] + rendered


def parsed(events: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rendered records, with keys and values as parsed JSON."""
    return [_parsed(event) for event in events.to_pylist()]


def _parsed(event: dict[str, Any]) -> dict[str, Any]:
    loaded = {name: None if event[name] is None else orjson.loads(event[name]) for name in ("key", "value")}
    return {**event, **loaded}


def _record(event: dict[str, Any], schema: pa.Schema) -> dict[str, Any]:
    value = {
        field.name: json_value(event[field.name], orjson.loads(field.metadata[b"schema"]))
        for field in schema
        if field.metadata
    }
    key = value.pop("key", None)
    return {
        "topic": schema.metadata[b"topic"].decode(),
        "key": key,
        "value": None if event["op"] is None else value,
        "headers": event["headers"],
    }


def json_value(value: Any, schema: dict[str, Any]) -> Any:
    """A typed value as its record has it."""
    match value:
        case dict():
            return {field["field"]: json_value(value[field["field"]], field) for field in schema["fields"]}
        case [(_, _), *_] if schema["type"] == "map":
            return {key: json_value(item, schema["values"]) for key, item in value}
        case list():
            items = [json_value(item, schema["items"]) for item in value if schema["type"] == "array"]
            return items if schema["type"] == "array" else {}
        case _:
            return _scalar(value, schema)


def _scalar(value: Any, schema: dict[str, Any]) -> Any:
    if isinstance(value, Decimal):
        value = _unscaled(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        micros = (value.replace(tzinfo=UTC) - _EPOCH) // datetime.resolution
        return micros * _TICKS[schema["name"].rpartition(".")[2]] // 1_000_000
    if isinstance(value, date):
        return (value - _EPOCH.date()).days
    if isinstance(value, float) and not math.isfinite(value):
        return _SPECIAL[str(value)]
    return value


def _unscaled(value: Decimal) -> bytes:
    number = int(f"{'-' * value.as_tuple().sign}{''.join(map(str, value.as_tuple().digits))}")
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)
