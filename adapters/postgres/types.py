"""What each PostgreSQL type becomes: its Connect schema, and the way from its text to JSON.

Owns the choice by type and settings; reading the text is the encoders' affair (`engine.events` for
the common types, `adapters.postgres.values` for the rest).

Deliberately other than Debezium 2.1.4, which loses or garbles these values (in a stream unless said):

| type | there | here |
|---|---|---|
| name, ltree | null, or "" in a NOT NULL column | the value |
| time[], timetz[] | microseconds dropped | kept |
| an enum[] or ltree[] with a NULL inside | null | the array, null at its place |
| arrays of more than one dimension | wrong items | the items in order, flat |
| bit(n)[] | null, as Bits | an array of Bits |
| interval under `interval.handling.mode=string` | noise of floating point | exact |
| numeric infinity; NaN in a NOT NULL column | the connector dies | null (precise), else by name, as NaN |
| date, timestamp before 1582 in a snapshot | Julian, other days | proleptic Gregorian, as in the stream |
| date infinity in a snapshot | another number than in the stream | as in the stream |
| money beyond 2**53 in a snapshot | rounded as a double | exact |
| timetz whose zone has seconds, in a snapshot | null | the value |
| numeric(p,-s) under `decimal.handling.mode=string` | 2046 zeros after the point | the number |
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from adapters.postgres import values
from adapters.postgres.builtin import BUILTIN
from engine.events import binary, numbers, times
from engine.events.connect import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INT16,
    INT32,
    INT64,
    STRING,
    Schema,
    array,
    struct,
)
from engine.events.field import Conversion, Encode
from engine.events.settings import BinaryMode, DecimalMode, EventSettings, HstoreMode, IntervalMode, TimeMode
from engine.events.text import Text, each, escape, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adapters.postgres.table import PgType


def unchanged(texts: Text) -> Text:
    """Text that is JSON already."""
    return texts


def booleans(texts: Text) -> Text:
    """`t` and `f`."""
    return pc.if_else(pc.equal(texts, "t"), "true", "false").cast("large_string")


def _quoted(schema: Schema, encode: Encode, filler: str = '""') -> Conversion:
    plain = (unchanged if encode is escape else encode) if schema.type == "string" else None
    return Conversion(schema, encode, quoted=True, filler=filler, plain=plain)


def _bare(schema: Schema, encode: Encode = unchanged, filler: str = "0") -> Conversion:
    return Conversion(schema, encode, quoted=False, filler=filler)


_NUMBERS = {"int2": INT16, "int4": INT32, "int8": INT64, "oid": INT64}
_STRINGS = frozenset(
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
        "int4range",
        "int8range",
        "numrange",
        "tsrange",
        "tstzrange",
        "daterange",
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
_NO_ARRAYS = frozenset(("bytea", "interval", "money", "xml", "point", "varbit", "name", "refcursor"))
"""Element types whose arrays Debezium leaves out of the event."""


def conversion(
    kind: PgType, typmod: int, types: Mapping[int, PgType], settings: EventSettings
) -> Conversion | None:
    """The conversion of a column of this type; None where the column is left out of the events."""
    if kind.kind == "d":
        base = type_of(kind.base, types)
        typmod = kind.base_typmod if kind.base_typmod != -1 else typmod
        return conversion(base, typmod, types, settings) if base else _unknown(settings)
    if kind.element and kind.category == "A":
        return _array(kind, typmod, types, settings)
    if kind.kind == "e":
        schema = Schema(
            "string",
            name="io.debezium.data.Enum",
            version=1,
            parameters=(("allowed", ",".join(kind.labels)),),
        )
        return replace(_with_text_placeholder(_quoted(schema, escape), settings), text=True)
    return _base(kind.name, typmod, settings) or _unknown(settings, kind.name)


def type_of(oid: int, types: Mapping[int, PgType]) -> PgType | None:
    """A type by its oid, from the catalog or PostgreSQL's own."""
    return types.get(oid) or BUILTIN.get(oid)


def _base(name: str, typmod: int, settings: EventSettings) -> Conversion | None:
    if name in _NUMBERS:
        return _bare(_NUMBERS[name])
    if name in _STRINGS:
        encode = unchanged if name in _PLAIN else escape
        return replace(_with_text_placeholder(_quoted(STRING, encode), settings), text=name in _MASKABLE)
    if name in _SEMANTIC_STRINGS:
        schema = Schema("string", name=_SEMANTIC_STRINGS[name], version=1)
        return _with_text_placeholder(_quoted(schema, unchanged if name in _PLAIN else escape), settings)
    if name in {"float4", "float8"}:
        wide = name == "float8"
        encode = numbers.doubles_as_java if wide else numbers.floats_as_java
        return _bare(DOUBLE if wide else FLOAT, encode, "0.0")
    if name == "bool":
        return _bare(BOOLEAN, booleans, "false")
    choose = _CHOICES.get(name)
    return choose(typmod, settings) if choose else None


def _with_text_placeholder(conversion: Conversion, settings: EventSettings) -> Conversion:
    return replace(conversion, placeholder=quote(settings.unavailable_value))


def _numeric(typmod: int, settings: EventSettings) -> Conversion:
    if settings.decimals is DecimalMode.DOUBLE:
        return _bare(DOUBLE, numbers.numbers_as_doubles, "0.0")
    if settings.decimals is DecimalMode.STRING:
        return _with_text_placeholder(_quoted(STRING, numbers.special_names, _zero(_scale(typmod))), settings)
    if typmod == -1:
        return _bare(_VARIABLE, numbers.variable_decimals, '{"scale":0,"value":"AA=="}')
    return _decimal(_scale(typmod), (typmod - 4) >> 16)


def _scale(typmod: int) -> int:
    """Digits of fraction as the JDBC driver reads them: a negative scale comes out as 2046 and less."""
    return 0 if typmod == -1 else (typmod - 4) & 0x7FF


def _zero(scale: int) -> str:
    """The JSON of nought in the form of `decimal.handling.mode=string`."""
    return f'"{0:.{scale if scale <= _LARGEST_SCALE else 0}f}"'


def _decimal(scale: int, precision: int | None) -> Conversion:
    parameters: tuple[tuple[str, str], ...] = (("scale", str(scale)),)
    if precision is not None:
        parameters += (("connect.decimal.precision", str(precision)),)
    schema = Schema("bytes", name="org.apache.kafka.connect.data.Decimal", version=1, parameters=parameters)
    return _quoted(schema, partial(numbers.decimal_base64, scale=scale), '"AA=="')


def _money(_: int, settings: EventSettings) -> Conversion:
    if settings.decimals is DecimalMode.DOUBLE:
        return _bare(DOUBLE, _money_doubles, "0.0")
    if settings.decimals is DecimalMode.STRING:
        return _quoted(STRING, _money_strings, _zero(settings.money_fraction_digits))
    inner = _decimal(settings.money_fraction_digits, None)
    return replace(inner, encode=partial(_money_decimals, scale=settings.money_fraction_digits))


def _money_strings(texts: Text) -> Text:
    return values.distinct(texts, values.money)


def _money_doubles(texts: Text) -> Text:
    return numbers.numbers_as_doubles(_money_strings(texts))


def _money_decimals(texts: Text, scale: int) -> Text:
    return numbers.decimal_base64(_money_strings(texts), scale)


def _bytea(_: int, settings: EventSettings) -> Conversion:
    schema = BYTES if settings.binary is BinaryMode.BYTES else STRING
    return _with_bytes_placeholder(_quoted(schema, partial(binary.hex_text, mode=settings.binary)), settings)


def _with_bytes_placeholder(conversion: Conversion, settings: EventSettings) -> Conversion:
    """Bytes have one in `binary.handling.mode=bytes` alone."""
    if settings.binary is not BinaryMode.BYTES:
        return conversion
    unavailable = binary.encode_bytes(settings.unavailable_value.encode(), BinaryMode.BYTES)
    return replace(conversion, placeholder=quote(unavailable))


def _unknown(settings: EventSettings, name: str = "") -> Conversion | None:
    if not settings.include_unknown_types:
        return None
    schema = BYTES if settings.binary is BinaryMode.BYTES else STRING
    encode = _geometric_bytes if name in _GEOMETRIC else _text_bytes
    return _with_bytes_placeholder(_quoted(schema, partial(encode, mode=settings.binary)), settings)


def _geometric_bytes(texts: Text, mode: BinaryMode) -> Text:
    return _text_bytes(each(texts, values.java_numbers), mode)


def _text_bytes(texts: Text, mode: BinaryMode) -> Text:
    return each(texts, lambda text: binary.encode_bytes(text.encode(), mode))


_MICRO_TIME = _bare(Schema("int64", name="io.debezium.time.MicroTime", version=1), times.clock_micros)
"""Times to the microsecond; arrays of times always are."""


def _precision(typmod: int) -> int:
    return 6 if typmod == -1 else typmod


def _date(_: int, settings: EventSettings) -> Conversion:
    name = (
        "org.apache.kafka.connect.data.Date"
        if settings.times is TimeMode.CONNECT
        else "io.debezium.time.Date"
    )
    return _bare(Schema("int32", name=name, version=1), times.days)


def _time(typmod: int, settings: EventSettings) -> Conversion:
    if settings.times is TimeMode.CONNECT:
        return _bare(
            Schema("int32", name="org.apache.kafka.connect.data.Time", version=1), times.clock_millis
        )
    if settings.times is TimeMode.ADAPTIVE and _precision(typmod) <= 3:
        return _bare(Schema("int32", name="io.debezium.time.Time", version=1), times.clock_millis)
    return _MICRO_TIME


def _timestamp(typmod: int, settings: EventSettings) -> Conversion:
    if settings.times is TimeMode.CONNECT:
        return _bare(Schema("int64", name="org.apache.kafka.connect.data.Timestamp", version=1), times.millis)
    if _precision(typmod) <= 3:
        return _bare(Schema("int64", name="io.debezium.time.Timestamp", version=1), times.millis)
    return _bare(Schema("int64", name="io.debezium.time.MicroTimestamp", version=1), times.micros)


def _timestamptz(typmod: int, _: EventSettings) -> Conversion:
    schema = Schema("string", name="io.debezium.time.ZonedTimestamp", version=1)
    return _quoted(schema, partial(times.utc_stamps, fraction=_precision(typmod)), '"1970-01-01T00:00:00Z"')


def _timetz(_: int, __: EventSettings) -> Conversion:
    return _quoted(
        Schema("string", name="io.debezium.time.ZonedTime", version=1), times.utc_clock, '"00:00:00Z"'
    )


def _interval(_: int, settings: EventSettings) -> Conversion:
    if settings.intervals is IntervalMode.STRING:
        schema = Schema("string", name="io.debezium.time.Interval", version=1)
        return _quoted(schema, partial(values.distinct, convert=values.interval_iso), '"P0Y0M0DT0H0M0S"')
    schema = Schema("int64", name="io.debezium.time.MicroDuration", version=1)
    return _bare(schema, partial(values.distinct, convert=values.interval_micros))


def _bits(typmod: int, _: EventSettings) -> Conversion:
    if typmod == 1:
        return _bare(BOOLEAN, _single_bits, "false")
    return _bit_string(typmod)


def _single_bits(texts: Text) -> Text:
    return pc.if_else(pc.equal(texts, "1"), "true", "false").cast("large_string")


def _varbits(typmod: int, settings: EventSettings) -> Conversion:
    return _bits(typmod if typmod != -1 else 2**31 - 1, settings)


def _bit_string(length: int) -> Conversion:
    schema = Schema("bytes", name="io.debezium.data.Bits", version=1, parameters=(("length", str(length)),))
    return _quoted(schema, partial(values.distinct, convert=values.bits))


def _point(_: int, __: EventSettings) -> Conversion:
    return _bare(_POINT, partial(each, convert=values.point), _POINT_FILLER)


def _geometry(name: str, typmod: int, settings: EventSettings) -> Conversion:
    del typmod, settings
    schema = struct(
        f"io.debezium.data.geometry.{name.capitalize()}",
        ("wkb", BYTES),
        ("srid", INT32.nullable()),
        version=1,
        doc=name.capitalize(),
    )
    return _bare(schema, partial(each, convert=values.geometry), _EMPTY_GEOMETRY)


def _hstore(_: int, settings: EventSettings) -> Conversion:
    if settings.hstore is HstoreMode.MAP:
        schema = Schema("map", keys=STRING, items=STRING.nullable())
        unavailable = quote(settings.unavailable_value)
        return replace(
            _bare(schema, partial(each, convert=values.hstore_json), "{}"),
            placeholder=f"{{{unavailable}:{unavailable}}}",
        )
    schema = Schema("string", name="io.debezium.data.Json", version=1)
    conversion = replace(_quoted(schema, _hstore_strings, '"{}"'), plain=_hstore_objects)
    return _with_text_placeholder(conversion, settings)


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


def _array(
    kind: PgType, typmod: int, types: Mapping[int, PgType], settings: EventSettings
) -> Conversion | None:
    element = type_of(kind.element, types)
    if element is None or element.name in _NO_ARRAYS:
        return None
    item = conversion(element, typmod, types, settings) if element.kind != "d" else _unknown(settings)
    if element.name == "time":
        item = _MICRO_TIME
    if item is None:
        return None
    known = element.kind not in {"d", "e"} and _base(element.name, typmod, settings) is not None
    encode = partial(values.arrays, encode=item.encode, quoted=item.quoted)
    made = _bare(array(item.schema.nullable(optional=known)), encode, "[]")
    return replace(made, placeholder=_array_placeholder(element, settings))


def _array_placeholder(element: PgType, settings: EventSettings) -> str | None:
    if element.name in _STRINGS or element.name in {"json", "jsonb"}:
        return f"[{quote(settings.unavailable_value)}]"
    if element.name in {"int2", "int4", "int8"}:
        letters = np.frombuffer(settings.unavailable_value.encode(), np.int8)
        return f"[{','.join(map(str, letters))}]"
    return None
