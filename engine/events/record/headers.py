"""Keys as header values, as Kafka Connect's header converters write them.

The default, `SimpleHeaderConverter`, writes a struct almost like JSON. But in strings it escapes only quotes
and backslashes, it writes decimals and dates by their values, and NaN without quotes. So a key's payload is
used unchanged unless it contains one of these; then it is parsed and written again.
"""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.events.values.text import replace_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.events.record.field import Field
    from engine.events.record.schema import Schema
    from engine.events.values.text import Text

_LOGICAL = "org.apache.kafka.connect.data."
_DAY_MS = 86_400_000
_DIFFERS = r'\\[bfnrtu]|"(?:NaN|-?Infinity)"'
"""What JSON writes differently from the converter. A text that contains it by chance only costs time."""


class _Number(str):
    """A number's text."""

    __slots__ = ()


def simple_texts(payloads: Text, key: Sequence[Field]) -> Text:
    """The keys' payloads as `SimpleHeaderConverter` writes their structs."""
    differs = (
        np.ones(len(payloads), bool)
        if any(_is_logical(field.schema) for field in key)
        else pc.match_substring_regex(payloads, _DIFFERS).to_numpy(zero_copy_only=False)
    )
    rows = np.flatnonzero(differs)
    if len(rows) == 0:
        return payloads
    fields = {field.name: field.schema for field in key}
    return replace_rows(
        payloads, rows, [_simple_text(text, fields) for text in payloads.take(pa.array(rows)).to_pylist()]
    )


def _simple_text(payload: str, fields: dict[str, Schema]) -> str:
    read = json.loads(payload, parse_int=_Number, parse_float=_Number)
    return _struct(read, fields)


def _is_logical(schema: Schema) -> bool:
    """Whether this type, or one within it, is a logical type, written by its meaning."""
    inner = [
        *(member for _, member in schema.fields),
        *(nested for nested in (schema.keys, schema.items) if nested),
    ]
    return _logical_name(schema) in _LOGICALS or any(map(_is_logical, inner))


def _logical_name(schema: Schema) -> str:
    return (schema.name or "").removeprefix(_LOGICAL)


def _struct(members: dict[str, Any], fields: dict[str, Schema]) -> str:
    shown = (f"{_string(name)}:{_shown(value, fields[name])}" for name, value in members.items())
    return "{" + ",".join(shown) + "}"


def _shown(value: Any, schema: Schema) -> str:
    if isinstance(value, str) and _logical_name(schema) in _LOGICALS:
        return _LOGICALS[_logical_name(schema)](value, schema)
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, str):
        return value if schema.type in {"float", "double"} else _string(value)
    if isinstance(value, list) and schema.items is not None:
        return "[" + ",".join([_shown(item, schema.items) for item in value]) + "]"
    if isinstance(value, dict):
        return _struct(value, dict.fromkeys(value, schema.items) if schema.items else dict(schema.fields))
    return _CONSTANTS[value]


def _string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _decimal(value: str, schema: Schema) -> str:
    """Python writes decimals as Java's `BigDecimal` does."""
    unscaled = int.from_bytes(base64.b64decode(value), "big", signed=True)
    digits = tuple(map(int, str(abs(unscaled))))
    return str(Decimal((unscaled < 0, digits, -int(dict(schema.parameters)["scale"]))))


def _date(value: str, _: Schema, unit_ms: int) -> str:
    """The value in UTC: a time if it is on the first day, a date if it has no time of day, else both."""
    ms = int(value) * unit_ms
    day, rest = divmod(ms, _DAY_MS)
    clock = f"{np.datetime64(rest, 'ms')}"[11:] + "Z"
    if ms < _DAY_MS:
        return clock
    shown = str(np.datetime64(day, "D"))
    return shown if rest == 0 else f"{shown}T{clock}"


_CONSTANTS = {None: "null", True: "true", False: "false"}
_LOGICALS: dict[str, Callable[[str, Schema], str]] = {
    "Decimal": _decimal,
    "Date": partial(_date, unit_ms=_DAY_MS),
    "Time": partial(_date, unit_ms=1),
    "Timestamp": partial(_date, unit_ms=1),
}
"""Connect's own types whose values are not their JSON."""
