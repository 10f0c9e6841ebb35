"""What PostgreSQL's scalar types become: schema, encoder, and fillers for missing values.

Chooses by name, precision and settings. `types` handles domains, enumerations and arrays. The encoders parse
the text (`engine.events` for the common types, `values` for the rest).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from adapters.postgres.events.columns import values
from adapters.postgres.events.columns.builtin_types import RANGES
from engine.events.record.schema import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INT16,
    INT32,
    INT64,
    STRING,
    Schema,
    struct,
)
from engine.events.settings import BinaryMode, DecimalMode, EventSettings, HstoreMode, IntervalMode, TimeMode
from engine.events.values import binary, numbers, times
from engine.events.values.conversions import bare, decimal, quoted
from engine.events.values.floats import java_floats
from engine.events.values.json_strings import escape
from engine.events.values.json_text import quote
from engine.events.values.text import Text, each, unchanged

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.events.record.field import Conversion


def booleans(texts: Text) -> Text:
    """Encode `t` and `f`."""
    return pc.if_else(pc.equal(texts, "t"), "true", "false").cast("large_string")


_NUMBERS = {"int2": INT16, "int4": INT32, "int8": INT64, "oid": INT64}
STRINGS = frozenset(
    [
        "bpchar",
        "varchar",
        "text",
        "name",
        "char",
        "citext",
        "inet",
        "cidr",
        "macaddr",
        "macaddr8",
        *RANGES,
    ],
)
_SEMANTIC_STRINGS = {
    "json": "io.debezium.data.Json",
    "jsonb": "io.debezium.data.Json",
    "xml": "io.debezium.data.Xml",
    "uuid": "io.debezium.data.Uuid",
    "ltree": "io.debezium.data.Ltree",
}
_MASKABLE = frozenset(("bpchar", "varchar", "text", "name", "char", "citext"))
_PLAIN = frozenset(("uuid", "inet", "cidr", "macaddr", "macaddr8"))
"""Types whose text never needs escaping."""
_VARIABLE = struct(
    "io.debezium.data.VariableScaleDecimal",
    ("scale", INT32),
    ("value", BYTES),
    version=1,
    doc="Variable scaled decimal",
)
_POINT = struct(
    "io.debezium.data.geometry.Point",
    ("x", DOUBLE),
    ("y", DOUBLE),
    ("wkb", BYTES.nullable()),
    ("srid", INT32.nullable()),
    version=1,
    doc="Geometry (POINT)",
)
_POINT_FILLER = values.point("(0,0)")
_EMPTY_GEOMETRY = '{"wkb":"AQcAAAAAAAAA","srid":null}'
"""A collection without geometries."""
_LARGEST_SCALE = 1000
_GEOMETRIC = frozenset(("line", "lseg", "box", "path", "polygon", "circle"))


def scalar(name: str, typmod: int, settings: EventSettings) -> Conversion | None:
    """The conversion of a type by its name; None if Debezium does not know it."""
    if name in _NUMBERS:
        return bare(_NUMBERS[name])
    if name in STRINGS:
        encode = unchanged if name in _PLAIN else escape
        return replace(with_text_placeholder(quoted(STRING, encode), settings), text=name in _MASKABLE)
    if name in _SEMANTIC_STRINGS:
        schema = Schema("string", name=_SEMANTIC_STRINGS[name], version=1)
        return with_text_placeholder(quoted(schema, unchanged if name in _PLAIN else escape), settings)
    if name in {"float4", "float8"}:
        wide = name == "float8"
        encode = java_floats.doubles_as_java if wide else java_floats.floats_as_java
        return bare(DOUBLE if wide else FLOAT, encode, "0.0")
    if name == "bool":
        return bare(BOOLEAN, booleans, "false")
    choose = _CHOICES.get(name)
    return choose(typmod, settings) if choose else None


def with_text_placeholder(conversion: Conversion, settings: EventSettings) -> Conversion:
    """The conversion with the text that stands for an unchanged value."""
    return replace(conversion, placeholder=quote(settings.unavailable_text))


def _numeric(typmod: int, settings: EventSettings) -> Conversion:
    if settings.decimals is DecimalMode.DOUBLE:
        return bare(DOUBLE, java_floats.numbers_as_doubles, "0.0")
    if settings.decimals is DecimalMode.STRING:
        made = quoted(STRING, numbers.special_names, _zero(decimal_scale(typmod)))
        return with_text_placeholder(made, settings)
    if typmod == -1:
        return bare(_VARIABLE, numbers.variable_decimals, '{"scale":0,"value":"AA=="}')
    return decimal(decimal_scale(typmod), (typmod - 4) >> 16)


def decimal_scale(typmod: int) -> int:
    """The fraction digits as the JDBC driver reads them; a negative scale comes out as 2046 or less."""
    return 0 if typmod == -1 else (typmod - 4) & 0x7FF


def _zero(scale: int) -> str:
    """The JSON of zero under `decimal.handling.mode=string`."""
    return f'"{0:.{scale if scale <= _LARGEST_SCALE else 0}f}"'


def _money(_: int, settings: EventSettings) -> Conversion:
    if settings.decimals is DecimalMode.DOUBLE:
        return bare(DOUBLE, _money_doubles, "0.0")
    if settings.decimals is DecimalMode.STRING:
        return quoted(STRING, values.moneys, _zero(settings.money_fraction_digits))
    inner = decimal(settings.money_fraction_digits, None)
    return replace(inner, encode=partial(_money_decimals, scale=settings.money_fraction_digits))


def _money_doubles(texts: Text) -> Text:
    return java_floats.numbers_as_doubles(values.moneys(texts))


def _money_decimals(texts: Text, scale: int) -> Text:
    return numbers.decimal_base64(values.moneys(texts), scale)


def _bytea(_: int, settings: EventSettings) -> Conversion:
    schema = BYTES if settings.binary is BinaryMode.BYTES else STRING
    return _with_bytes_placeholder(quoted(schema, partial(binary.hex_text, mode=settings.binary)), settings)


def _with_bytes_placeholder(conversion: Conversion, settings: EventSettings) -> Conversion:
    """The conversion with a placeholder, which bytes have only under `binary.handling.mode=bytes`."""
    if settings.binary is not BinaryMode.BYTES:
        return conversion
    unavailable = binary.encode_bytes(settings.unavailable_value, BinaryMode.BYTES)
    return replace(conversion, placeholder=quote(unavailable))


def unknown(settings: EventSettings, name: str = "") -> Conversion | None:
    """What an unknown type becomes if unknown types are included: the bytes of its text."""
    if not settings.include_unknown_types:
        return None
    schema = BYTES if settings.binary is BinaryMode.BYTES else STRING
    encode = _geometric_bytes if name in _GEOMETRIC else _text_bytes
    return _with_bytes_placeholder(quoted(schema, partial(encode, mode=settings.binary)), settings)


def _geometric_bytes(texts: Text, mode: BinaryMode) -> Text:
    return _text_bytes(each(texts, values.java_numbers), mode)


def _text_bytes(texts: Text, mode: BinaryMode) -> Text:
    return each(texts, lambda text: binary.encode_bytes(text.encode(), mode))


MICRO_TIME = bare(Schema("int64", name="io.debezium.time.MicroTime", version=1), times.clock_micros)
"""Times in microseconds; arrays of times always are."""


def _precision(typmod: int) -> int:
    return 6 if typmod == -1 else typmod


def _date(_: int, settings: EventSettings) -> Conversion:
    name = (
        "org.apache.kafka.connect.data.Date"
        if settings.times is TimeMode.CONNECT
        else "io.debezium.time.Date"
    )
    return bare(Schema("int32", name=name, version=1), times.days)


def _time(typmod: int, settings: EventSettings) -> Conversion:
    if settings.times is TimeMode.CONNECT:
        return bare(Schema("int32", name="org.apache.kafka.connect.data.Time", version=1), times.clock_millis)
    if settings.times is TimeMode.ADAPTIVE and _precision(typmod) <= 3:
        return bare(Schema("int32", name="io.debezium.time.Time", version=1), times.clock_millis)
    return MICRO_TIME


def _timestamp(typmod: int, settings: EventSettings) -> Conversion:
    if settings.times is TimeMode.CONNECT:
        return bare(Schema("int64", name="org.apache.kafka.connect.data.Timestamp", version=1), times.millis)
    if _precision(typmod) <= 3:
        return bare(Schema("int64", name="io.debezium.time.Timestamp", version=1), times.millis)
    return bare(Schema("int64", name="io.debezium.time.MicroTimestamp", version=1), times.micros)


def _timestamptz(typmod: int, _: EventSettings) -> Conversion:
    schema = Schema("string", name="io.debezium.time.ZonedTimestamp", version=1)
    return quoted(schema, partial(times.utc_stamps, fraction=_precision(typmod)), '"1970-01-01T00:00:00Z"')


def _timetz(_: int, __: EventSettings) -> Conversion:
    return quoted(
        Schema("string", name="io.debezium.time.ZonedTime", version=1), times.utc_clock, '"00:00:00Z"'
    )


def _interval(_: int, settings: EventSettings) -> Conversion:
    if settings.intervals is IntervalMode.STRING:
        schema = Schema("string", name="io.debezium.time.Interval", version=1)
        return quoted(schema, partial(values.distinct, convert=values.interval_iso), '"P0Y0M0DT0H0M0S"')
    schema = Schema("int64", name="io.debezium.time.MicroDuration", version=1)
    return bare(schema, values.intervals_micros)


def _bits(typmod: int, _: EventSettings) -> Conversion:
    if typmod == 1:
        return bare(BOOLEAN, _single_bits, "false")
    return _bit_string(typmod)


def _single_bits(texts: Text) -> Text:
    return pc.if_else(pc.equal(texts, "1"), "true", "false").cast("large_string")


def _varbits(typmod: int, settings: EventSettings) -> Conversion:
    return _bits(typmod if typmod != -1 else 2**31 - 1, settings)


def _bit_string(length: int) -> Conversion:
    schema = Schema("bytes", name="io.debezium.data.Bits", version=1, parameters=(("length", str(length)),))
    return quoted(schema, partial(values.distinct, convert=values.bits))


def _point(_: int, __: EventSettings) -> Conversion:
    return bare(_POINT, values.points, _POINT_FILLER)


def _geometry(name: str, typmod: int, settings: EventSettings) -> Conversion:
    del typmod, settings
    schema = struct(
        f"io.debezium.data.geometry.{name.capitalize()}",
        ("wkb", BYTES),
        ("srid", INT32.nullable()),
        version=1,
        doc=name.capitalize(),
    )
    return bare(schema, partial(each, convert=values.geometry), _EMPTY_GEOMETRY)


def _hstore(_: int, settings: EventSettings) -> Conversion:
    if settings.hstore is HstoreMode.MAP:
        schema = Schema("map", keys=STRING, items=STRING.nullable())
        unavailable = quote(settings.unavailable_text)
        return replace(
            bare(schema, partial(each, convert=values.hstore_map), "{}"),
            placeholder=f"{{{unavailable}:{unavailable}}}",
        )
    schema = Schema("string", name="io.debezium.data.Json", version=1)
    conversion = replace(quoted(schema, _hstore_strings, '"{}"'), plain=_hstore_objects)
    return with_text_placeholder(conversion, settings)


def _hstore_strings(texts: Text) -> Text:
    return escape(_hstore_objects(texts))


def _hstore_objects(texts: Text) -> Text:
    return each(texts, values.hstore_json)


_CHOICES: dict[str, Callable[[int, EventSettings], Conversion]] = {
    "numeric": _numeric,
    "money": _money,
    "bytea": _bytea,
    "date": _date,
    "time": _time,
    "timetz": _timetz,
    "timestamp": _timestamp,
    "timestamptz": _timestamptz,
    "interval": _interval,
    "bit": _bits,
    "varbit": _varbits,
    "point": _point,
    "geometry": partial(_geometry, "geometry"),
    "geography": partial(_geometry, "geography"),
    "hstore": _hstore,
}
