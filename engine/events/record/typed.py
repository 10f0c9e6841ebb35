"""Typed values: a schema's Arrow type, and arrays of it from what the conversions of columns write.

The Arrow type follows from the schema alone, so a column has the same type whatever database it comes from:

| schema | Arrow type |
|---|---|
| boolean, int16 to int64, float, double, string | the same; `large_string` |
| bytes | `large_binary` |
| Decimal | `decimal128` or `decimal256`; `large_binary` where it has more digits than these |
| Date | `date32` |
| Timestamp, MicroTimestamp, NanoTimestamp | `timestamp` of that unit, without a zone |
| array, map, struct | `list`, `map`, `struct` |

All else stays what the schema says: a time of day is an integer, because PostgreSQL has 24:00:00, and times
with a zone are strings. The values are those of the records: defaults, masks and placeholders included.
"""

from __future__ import annotations

import base64
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from engine.events.values.text import Text, fill, join, text_parts

if TYPE_CHECKING:
    from engine.events.record.schema import Schema

_CONNECT, _DEBEZIUM = "org.apache.kafka.connect.data", "io.debezium.time"
_DECIMAL = f"{_CONNECT}.Decimal"
_VARIABLE = "io.debezium.data.VariableScaleDecimal"
_BY_TYPE = {
    "boolean": pa.bool_(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.large_string(),
    "bytes": pa.large_binary(),
}
_BY_NAME = {
    f"{_CONNECT}.Date": pa.date32(),
    f"{_DEBEZIUM}.Date": pa.date32(),
    f"{_CONNECT}.Timestamp": pa.timestamp("ms"),
    f"{_DEBEZIUM}.Timestamp": pa.timestamp("ms"),
    f"{_DEBEZIUM}.MicroTimestamp": pa.timestamp("us"),
    f"{_DEBEZIUM}.NanoTimestamp": pa.timestamp("ns"),
}
_COMPOSITE = frozenset(("array", "map", "struct"))
_MOST_DIGITS = 38
"""Of a 128-bit decimal. A decimal of unknown precision, such as money, has no more."""
_MOST_LONG_DIGITS = 76
_EXACT = Context(prec=_MOST_LONG_DIGITS)
_SEXTETS = np.zeros(256, np.uint32)
_SEXTETS[np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)] = (
    range(64)
)


def arrow_type(schema: Schema) -> pa.DataType:
    """The Arrow type of a schema's values."""
    if schema.name in _BY_NAME:
        return _BY_NAME[schema.name]
    if schema.name == _DECIMAL:
        return _decimal_type(dict(schema.parameters))
    if schema.type == "struct":
        return pa.struct([(name, arrow_type(member)) for name, member in schema.fields])
    if schema.items is None:
        return _BY_TYPE[schema.type]
    items = arrow_type(schema.items)
    return pa.list_(items) if schema.keys is None else pa.map_(arrow_type(schema.keys), items)


def is_decimal(schema: Schema) -> bool:
    """Whether values are exact decimals, of one scale or of any."""
    return schema.name in {_DECIMAL, _VARIABLE}


def _decimal_type(parameters: dict[str, str]) -> pa.DataType:
    scale = int(parameters["scale"])
    digits = int(parameters.get("connect.decimal.precision", _MOST_DIGITS))
    if not 0 <= scale <= digits <= _MOST_LONG_DIGITS:
        return pa.large_binary()
    return pa.decimal128(digits, scale) if digits <= _MOST_DIGITS else pa.decimal256(digits, scale)


def typed_values(shown: Text, schema: Schema) -> pa.Array:
    """Values as a conversion writes them: JSON, or the inside of JSON strings for bytes. Null stays null."""
    if schema.type in _COMPOSITE:
        return from_json(shown, schema)
    # NaN and the infinities are in quotes.
    return _typed(pc.ascii_trim(shown, '"') if schema.type in {"float", "double"} else shown, schema)


def _typed(texts: Text, schema: Schema) -> pa.Array:
    """Scalars from their texts."""
    kind = arrow_type(schema)
    if schema.type == "bytes":
        return decimals(_bytes_of(texts), kind) if pa.types.is_decimal(kind) else _bytes_of(texts)
    if schema.type == "boolean":
        return pc.equal(texts, "true")
    return pc.cast(pc.cast(texts, _BY_TYPE[schema.type]), kind)


def constant(json: str, schema: Schema) -> pa.Scalar:
    """One value from its JSON."""
    return pa.array([_value(orjson.loads(json), schema)], arrow_type(schema))[0]


def from_json(texts: Text, schema: Schema) -> pa.Array:
    """Values of any schema from their JSON; null stays null.

    Arrow reads JSON in bulk, except for maps, and for NaN, which JSON has only in quotes.
    """
    parsed = _parsed_type(schema)
    if parsed is not None and len(texts):
        try:
            return _converted(_parsed(texts, parsed), schema)
        except pa.ArrowInvalid:
            pass
    loaded = [None if text is None else orjson.loads(text) for text in texts.to_pylist()]
    return pa.array([_value(value, schema) for value in loaded], arrow_type(schema))


def _parsed_type(schema: Schema) -> pa.DataType | None:
    """The type as which Arrow reads a schema's JSON; None if it can't."""
    if schema.keys is not None:
        return None
    if schema.type == "struct":
        members = [(name, _parsed_type(member)) for name, member in schema.fields]
        return None if any(kind is None for _name, kind in members) else pa.struct(members)
    if schema.items is not None:
        items = _parsed_type(schema.items)
        return None if items is None else pa.list_(items)
    return _BY_TYPE["string" if schema.type == "bytes" else schema.type]


def _parsed(texts: Text, kind: pa.DataType) -> pa.Array:
    offsets, data = text_parts(join(['{"v":', fill(texts, "null"), "}\n"], len(texts)))
    used = data[offsets[0] : offsets[-1]]
    table = arrow_json.read_json(
        pa.BufferReader(pa.py_buffer(np.ascontiguousarray(used))),
        arrow_json.ReadOptions(use_threads=False, block_size=len(used) + 1),
        arrow_json.ParseOptions(explicit_schema=pa.schema([("v", kind)]), unexpected_field_behavior="error"),
    )
    return table.column(0).combine_chunks()


def _converted(parsed: pa.Array, schema: Schema) -> pa.Array:
    """An array of `_parsed_type` as one of `arrow_type`."""
    kind = arrow_type(schema)
    if parsed.type == kind:
        return parsed
    if schema.type == "struct":
        members = [_converted(parsed.field(at), member) for at, (_name, member) in enumerate(schema.fields)]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=pc.is_null(parsed))
    if schema.items is not None:
        items = _converted(parsed.values, schema.items)
        return pa.ListArray.from_arrays(parsed.offsets, items, type=kind, mask=pc.is_null(parsed))
    return _typed(parsed, schema) if schema.type == "bytes" else pc.cast(parsed, kind)


def _value(value: Any, schema: Schema) -> Any:
    """A value of parsed JSON as Arrow takes it."""
    if value is None:
        return None
    if schema.type == "struct":
        return {name: _value(value[name], member) for name, member in schema.fields}
    if schema.items is not None and schema.keys is not None:
        return [(key, _value(item, schema.items)) for key, item in value.items()]
    if schema.items is not None:
        return [_value(item, schema.items) for item in value]
    if schema.type == "bytes":
        return _unscaled(base64.b64decode(value), arrow_type(schema))
    return float(value) if schema.type in {"float", "double"} else value


def _unscaled(data: bytes, kind: pa.DataType) -> bytes | Decimal:
    if not pa.types.is_decimal(kind):
        return data
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-kind.scale, _EXACT)


def _bytes_of(texts: Text) -> pa.LargeBinaryArray:
    """The bytes of base64 texts."""
    offsets, data = text_parts(fill(texts, ""))
    chars = data[offsets[0] : offsets[-1]]
    sextets = _SEXTETS[chars].reshape(-1, 4)
    words = sextets[:, 0] << 18 | sextets[:, 1] << 12 | sextets[:, 2] << 6 | sextets[:, 3]
    raw = np.stack((words >> 16, words >> 8, words), axis=1).astype(np.uint8).reshape(-1)
    groups = (offsets - offsets[0]) // 4
    pads = np.concatenate(([0], np.cumsum((chars == ord("=")).reshape(-1, 4).sum(axis=1))))[groups]
    kept = np.concatenate([np.ones((len(words), 1), bool), (chars.reshape(-1, 4)[:, 2:] != ord("="))], axis=1)
    ends = groups * 3 - pads
    valid = pc.is_valid(texts).buffers()[1] if texts.null_count else None
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(texts), [valid, pa.py_buffer(ends), pa.py_buffer(raw[kept.reshape(-1)])]
    )


def decimals(unscaled: pa.LargeBinaryArray, kind: pa.DataType) -> pa.Array:
    """Decimals from their unscaled values in two's complement, most significant byte first."""
    offsets, data = text_parts(unscaled)
    used, starts, width = data[offsets[0] : offsets[-1]], offsets[:-1] - offsets[0], kind.byte_width
    sizes = np.diff(offsets)
    raw = np.zeros((len(sizes), width), np.uint8)
    given = np.flatnonzero(sizes)
    raw[given[used[starts[given]] >= 0x80]] = 0xFF
    rows = np.repeat(np.arange(len(sizes)), sizes)
    raw[rows, np.repeat(starts + sizes, sizes) - 1 - np.arange(len(used))] = used
    valid = pc.is_valid(unscaled).buffers()[1] if unscaled.null_count else None
    return pa.Array.from_buffers(kind, len(sizes), [valid, pa.py_buffer(raw)])
