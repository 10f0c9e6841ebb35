"""The columns of a change table: their types by the events' schemas, and values converted to them.

| schema of the event | column |
|---|---|
| boolean, int16, int32, int64, float, double, string, bytes | the same |
| Decimal of up to 38 digits | DECIMAL |
| Decimal of more digits, VariableScaleDecimal | STRING, exact |
| Date | DATE, and STRING for what it can't hold |
| Timestamp, MicroTimestamp | TIMESTAMP_NTZ, and STRING for what it can't hold |
| NanoTimestamp | BIGINT: Spark has no nanoseconds |
| array, map, struct | ARRAY, MAP, STRUCT of these |

All else is what the schema says, as in `engine/events/record/typed.py`. DATE and TIMESTAMP_NTZ hold the
years 1 to 9999. What lies outside, infinities included, is null in the column and stands as text in the
column `<name>__text`. An array or a struct with such a value inside is null as a whole, and stands there as
JSON. NaN and the infinities of a decimal stand there, too, if the events come from a sink's turn and not from
JSON, which has null there; a decimal that is text has them itself.
"""

from __future__ import annotations

import base64
from datetime import date
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import InvariantError
from engine.events.record.special_decimals import special_texts
from engine.events.record.typed import arrow_type, decimals, is_decimal
from engine.events.values.times import INFINITY_DAYS, INFINITY_US, MINUS_INFINITY_DAYS, MINUS_INFINITY_US

if TYPE_CHECKING:
    from engine.events.record.schema import Schema

TEXT_SUFFIX: Final = "__text"
_VARIABLE: Final = "io.debezium.data.VariableScaleDecimal"
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_LEAST_DAY, _MOST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970."""
_DAY_US: Final = 86_400_000_000
_UNIT_US: Final = {"ms": 1_000, "us": 1}
_SHORT_BYTES: Final = 15
"""Bytes of an unscaled value that certainly has no more than 38 digits."""
_MOST_SCALE: Final = 1_000
Mask = npt.NDArray[np.bool_]


class Column(NamedTuple):
    """Values of a column, and the text of those that its type can't hold; None if it holds all."""

    values: pa.Array
    texts: pa.Array | None = None


def column_type(schema: Schema) -> pa.DataType:
    """The Arrow type of a column."""
    if schema.name == _VARIABLE:
        return pa.string()
    if schema.type == "struct":
        return pa.struct([(name, column_type(member)) for name, member in schema.fields])
    if schema.items is not None:
        items = column_type(schema.items)
        return pa.list_(items) if schema.keys is None else pa.map_(column_type(schema.keys), items)
    return _scalar_type(arrow_type(schema), schema)


def _scalar_type(kind: pa.DataType, schema: Schema) -> pa.DataType:
    if schema.name == _DECIMAL and not pa.types.is_decimal128(kind):
        return pa.string()
    if pa.types.is_timestamp(kind):
        return pa.int64() if kind.unit == "ns" else pa.timestamp("us")
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def has_text(schema: Schema) -> bool:
    """Whether there are values that the column can't hold, by themselves or inside of others."""
    if is_decimal(schema) or schema.keys is not None:
        return False
    if schema.type == "struct":
        return any(has_text(member) for _name, member in schema.fields)
    if schema.items is not None:
        return has_text(schema.items)
    kind = column_type(schema)
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def has_special_text(schema: Schema) -> bool:
    """Whether it is a decimal of limited digits, whose NaN the column can't hold."""
    sized = "connect.decimal.precision" in dict(schema.parameters)
    return bool(sized and pa.types.is_decimal(column_type(schema)))


def column(values: pa.Array, schema: Schema) -> Column:
    """Typed values as those of the column."""
    if is_decimal(schema):
        return _numbers(values, schema)
    if pa.types.is_date(values.type):
        return _held(values, pc.cast(values, pa.int32()), (_LEAST_DAY, _MOST_DAY + 1), 1)
    if pa.types.is_timestamp(values.type) and values.type.unit in _UNIT_US:
        factor = _UNIT_US[values.type.unit]
        bounds = (_LEAST_DAY * _DAY_US // factor, (_MOST_DAY + 1) * _DAY_US // factor)
        return _held(values, pc.cast(values, pa.int64()), bounds, factor)
    if schema.type in {"struct", "array", "map"}:
        return _nested(values, schema)
    return Column(pc.cast(values, column_type(schema)))


def _numbers(values: pa.Array, schema: Schema) -> Column:
    """Decimals. NaN and the infinities are text."""
    special = special_texts(values)
    if special is not None:
        values = pc.if_else(special.is_valid(), pa.scalar(None, values.type), values)
    if pa.types.is_decimal128(values.type):
        return Column(values, special)
    if schema.name == _VARIABLE:
        texts = _variable_texts(values)
    else:
        texts = _decimal_texts(values, int(dict(schema.parameters)["scale"]))
    return Column(texts if special is None else pc.coalesce(special, texts))


def _held(values: pa.Array, numbers: pa.Array, bounds: tuple[int, int], factor: int) -> Column:
    """Dates or times of which those outside of `[least, end)` become text. `factor` leads to microseconds."""
    kind = pa.date32() if pa.types.is_date(values.type) else pa.timestamp("us")
    fits = pc.and_(pc.greater_equal(numbers, bounds[0]), pc.less(numbers, bounds[1]))
    if pc.all(fits, skip_nulls=True).as_py() is not False:
        return Column(pc.cast(values, kind), pa.nulls(len(values), pa.string()))
    held = pc.if_else(fits, values, pa.scalar(None, values.type))
    outside = pc.if_else(fits, pa.scalar(None, numbers.type), numbers).to_pylist()
    unit = values.type.unit if pa.types.is_timestamp(values.type) else "D"
    texts = [None if number is None else _moment_text(number, unit, factor) for number in outside]
    return Column(pc.cast(held, kind), pa.array(texts, pa.string()))


def _moment_text(number: int, unit: str, factor: int) -> str:
    """A date or time beyond the years 1 to 9999, in ISO 8601. The years before 1 are 0, -1 and so on."""
    infinities = (
        {INFINITY_DAYS: "infinity", MINUS_INFINITY_DAYS: "-infinity"}
        if unit == "D"
        else {INFINITY_US // factor: "infinity", MINUS_INFINITY_US // factor: "-infinity"}
    )
    return infinities.get(number) or _padded(str(np.array(number).astype(f"datetime64[{unit}]")))


def _padded(text: str) -> str:
    """NumPy writes years before 0 with three digits."""
    sign, (year, _dash, rest) = text[:1], text[1:].partition("-")
    return f"-{int(year):04}-{rest}" if sign == "-" else text


def _variable_texts(values: pa.Array) -> pa.Array:
    """Decimals of any scale as text: at once for those of the same scale that fit into 128 bits."""
    scales, raw = values.flatten()
    if not isinstance(raw, pa.LargeBinaryArray):
        raise InvariantError(f"a decimal has {raw.type} as its value")
    fits = pc.less_equal(pc.binary_length(raw), _SHORT_BYTES).fill_null(fill_value=False)
    texts = pa.nulls(len(raw), pa.string())
    for scale in pc.unique(scales).to_pylist():
        if scale is None:
            continue
        same = pc.equal(scales, scale).fill_null(fill_value=False)
        quick = (
            pc.and_(same, fits) if 0 <= scale <= _MOST_SCALE else pa.repeat(pa.scalar(value=False), len(raw))
        )
        texts = pc.replace_with_mask(texts, quick, _short_texts(raw.filter(quick), scale))
        slow = pc.and_(pc.and_not(same, quick), raw.is_valid())
        odd = [_decimal_text(data, scale) for data in raw.filter(slow).to_pylist()]
        texts = pc.replace_with_mask(texts, slow, pa.array(odd, pa.string()))
    return texts


def _short_texts(raw: pa.LargeBinaryArray, scale: int) -> pa.Array:
    """Decimals of one scale from at most 15 bytes of their unscaled values."""
    unscaled = decimals(raw, pa.decimal128(38, 0))
    digits = pc.utf8_lpad(pc.cast(pc.abs(unscaled), pa.string()), scale + 1, "0")
    signs = pc.if_else(pc.less(unscaled, 0), "-", "")
    if not scale:
        return pc.binary_join_element_wise(signs, digits, "")
    whole, fraction = pc.utf8_slice_codeunits(digits, 0, -scale), pc.utf8_slice_codeunits(digits, -scale)
    return pc.binary_join_element_wise(signs, whole, pa.scalar("."), fraction, "")


def _decimal_texts(values: pa.Array, scale: int) -> pa.Array:
    """Decimals that Arrow or Spark has no type for, as text."""
    if pa.types.is_decimal(values.type):
        return pa.array(
            [None if value is None else f"{value:f}" for value in values.to_pylist()], pa.string()
        )
    texts = [None if data is None else _decimal_text(data, scale) for data in values.to_pylist()]
    return pa.array(texts, pa.string())


def _decimal_text(data: bytes, scale: int) -> str:
    number = int.from_bytes(data, "big", signed=True)
    digits = Decimal(abs(number)).as_tuple().digits  # `str` writes 4,300 at most
    return f"{Decimal((int(number < 0), digits, -scale)):f}"


def _nested(values: pa.Array, schema: Schema) -> Column:
    """Arrays, maps and structs. One whose members can't all be held is null, and stands as JSON beside it."""
    kind, null = column_type(schema), values.is_null().to_numpy(zero_copy_only=False)
    if schema.type == "struct":
        members = [column(values.field(at), member) for at, (_name, member) in enumerate(schema.fields)]
        odd = np.logical_or.reduce([np.zeros(len(values), bool), *map(_outside, members)]) & ~null
        made = pa.StructArray.from_arrays(
            [member.values for member in members], fields=list(kind), mask=pa.array(null | odd)
        )
    elif schema.keys is not None or schema.items is None:
        return Column(pc.cast(values, kind))
    else:
        items = column(values.values, schema.items)
        before = np.concatenate(([0], np.cumsum(_outside(items))))[values.offsets.to_numpy()]
        odd = (np.diff(before) > 0) & ~null
        made = pa.ListArray.from_arrays(values.offsets, items.values, type=kind, mask=pa.array(null | odd))
    if not has_text(schema):
        return Column(made)
    texts = np.full(len(values), None, object)
    places = np.flatnonzero(odd)
    texts[places] = [orjson.dumps(shown).decode() for shown in _shown(values.take(pa.array(places)), schema)]
    return Column(made, pa.array(texts, pa.string()))


def _outside(made: Column) -> Mask:
    """Which values their column can't hold."""
    if made.texts is None:
        return np.zeros(len(made.values), bool)
    outside: Mask = made.texts.is_valid().to_numpy(zero_copy_only=False)
    return outside


def _shown(values: pa.Array, schema: Schema) -> list[Any]:
    """A few values as JSON has them, dates and times in ISO 8601."""
    if schema.type == "struct" and not is_decimal(schema):
        members = {name: _shown(values.field(at), member) for at, (name, member) in enumerate(schema.fields)}
        rows = [dict(zip(members, row, strict=True)) for row in zip(*members.values(), strict=True)]
        return [
            row if there else None for row, there in zip(rows, values.is_valid().to_pylist(), strict=True)
        ]
    if schema.items is not None and schema.keys is None:
        items = iter(_shown(values.flatten(), schema.items))
        sizes = pc.list_value_length(values).to_pylist()
        return [None if size is None else list(islice(items, size)) for size in sizes]
    made = column(values, schema)
    texts = [None] * len(values) if made.texts is None else made.texts.to_pylist()
    return [
        _plain(value) if text is None else text
        for value, text in zip(made.values.to_pylist(), texts, strict=True)
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict | list | tuple | Decimal):
        return str(value)
    return value.isoformat() if isinstance(value, date) else value


def exactly(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Values of a column as another type; None if that would change one.

    Raises pa.ArrowInvalid for a value that can't be one of that type, and pa.ArrowNotImplementedError if no
    value can.
    """
    made = pc.cast(values, kind)
    if _unnamed(values.type) == _unnamed(kind):
        return made
    if pa.types.is_string(values.type):
        # Text is parsed. Only floats have fewer digits than it.
        return None if pa.types.is_floating(kind) else made
    back = pc.cast(made, values.type)
    if pa.types.is_floating(values.type):
        there = pc.invert(pc.is_nan(values))
        back, values = back.filter(there), values.filter(there)
    return made if back.equals(values) else None


def _unnamed(kind: pa.DataType) -> pa.DataType:
    """A type without the names of lists' items, in which Spark and Arrow differ."""
    if pa.types.is_list(kind):
        return pa.list_(_unnamed(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_unnamed(kind.key_type), _unnamed(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _unnamed(field.type)) for field in kind])
    return kind
