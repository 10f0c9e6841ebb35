"""How SQL Server types are encoded: each type's Connect schema, and the conversion of its text to JSON.

The texts are those that `tsql` makes the server write: bit as 0 and 1, money with four fraction digits, real
and float in style 3, bytes as hexadecimal digits, dates and times in style 121.

Deliberate differences from Debezium 2.1.4, which loses or garbles these values:

| type | Debezium 2.1.4 | here |
|---|---|---|
| time(4) to time(7) in a stream | digits past the millisecond dropped | kept |
| datetime2(7) outside 1677 to 2262 | wraps around 64 bits | the least or greatest 64-bit number |
| dates before 1582 in a snapshot | by Java's Julian calendar | proleptic Gregorian, as in the stream |
| a large value that an update left alone, in `before` | null, "" if NOT NULL | its value, if NOT NULL |
| a computed column | null in a stream, a value in a snapshot | always null, optional: the log has none |
| default N'…', or a quote inside | garbled | the text |
| default of a bit other than ((1)) | false | its value |
| default of a text that is a call or NULL | a piece of its expression | none |

The reference document gives xml the semantic type `io.debezium.data.Xml`, as here; the driver of 2.1.4 makes
it a plain string. The document says GMT for datetimeoffset. 2.1.4 keeps the value's own offset, and so does
this module, since nothing is lost. geometry, geography and hierarchyid are the server's own bytes, as in
Debezium; sql_variant and user-defined CLR types are left out.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from engine.events.record.schema import BOOLEAN, BYTES, DOUBLE, FLOAT, INT16, INT32, INT64, STRING, Schema
from engine.events.settings import BinaryMode, DecimalMode, EventSettings, TimeMode
from engine.events.values import binary, stamps
from engine.events.values.conversions import bare, decimal, quoted
from engine.events.values.floats import java_floats
from engine.events.values.json_strings import escape
from engine.events.values.text import Text, unchanged

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.sqlserver.server.table import Column
    from engine.events.record.field import Conversion

_INTEGERS = {"tinyint": INT16, "smallint": INT16, "int": INT32, "bigint": INT64}
_TEXTS = frozenset(("char", "varchar", "text", "nchar", "nvarchar", "ntext"))
_BYTES = frozenset(("binary", "varbinary", "image", "timestamp", "geometry", "geography", "hierarchyid"))
_MILLIS, _MICROS, _NANOS = 3, 6, 9
_CONNECT = "org.apache.kafka.connect.data"
_DEBEZIUM = "io.debezium.time"


def conversion(column: Column, settings: EventSettings) -> Conversion | None:
    """The conversion of a column's texts; None where the column is left out of the events."""
    choose = _CHOICES.get(column.type)
    made = choose(column, settings) if choose else None
    return replace(made, lost=True) if made and column.computed else made


def _integer(column: Column, _: EventSettings) -> Conversion:
    return bare(_INTEGERS[column.type])


def _bit(_: Column, __: EventSettings) -> Conversion:
    return bare(BOOLEAN, _flags, "false")


def _flags(texts: Text) -> Text:
    return pc.if_else(pc.equal(texts, "1"), "true", "false").cast(pa.large_string())


def _text(_: Column, __: EventSettings) -> Conversion:
    return replace(quoted(STRING, escape), text=True)


def _xml(_: Column, __: EventSettings) -> Conversion:
    return replace(quoted(Schema("string", name="io.debezium.data.Xml", version=1), escape), text=True)


def _guid(_: Column, __: EventSettings) -> Conversion:
    return replace(quoted(STRING, unchanged), text=True)


def _float(_: Column, __: EventSettings) -> Conversion:
    return bare(DOUBLE, java_floats.numbers_as_doubles, "0.0")


def _real(_: Column, __: EventSettings) -> Conversion:
    return bare(FLOAT, java_floats.numbers_as_floats, "0.0")


def _decimal(column: Column, settings: EventSettings) -> Conversion:
    return _number(column.precision, column.scale, settings)


def _money(column: Column, settings: EventSettings) -> Conversion:
    return _number(19 if column.type == "money" else 10, 4, settings)


def _number(precision: int, scale: int, settings: EventSettings) -> Conversion:
    if settings.decimals is DecimalMode.DOUBLE:
        return bare(DOUBLE, java_floats.numbers_as_doubles, "0.0")
    if settings.decimals is DecimalMode.STRING:
        return quoted(STRING, unchanged, f'"{0:.{scale}f}"')
    return decimal(scale, precision)


def _binary(_: Column, settings: EventSettings) -> Conversion:
    schema = BYTES if settings.binary is BinaryMode.BYTES else STRING
    return quoted(schema, partial(binary.digits_text, mode=settings.binary))


def _logical(kind: str, name: str, encode: Callable[[Text], Text]) -> Conversion:
    return bare(Schema(kind, name=name, version=1), encode)


def _date(_: Column, settings: EventSettings) -> Conversion:
    package = _CONNECT if settings.times is TimeMode.CONNECT else _DEBEZIUM
    return _logical("int32", f"{package}.Date", stamps.days)


def _time(column: Column, settings: EventSettings) -> Conversion:
    if settings.times is TimeMode.CONNECT:
        return _logical("int32", f"{_CONNECT}.Time", partial(stamps.clocks, digits_kept=_MILLIS))
    adaptive = settings.times is TimeMode.ADAPTIVE
    if adaptive and column.scale <= _MILLIS:
        return _logical("int32", f"{_DEBEZIUM}.Time", partial(stamps.clocks, digits_kept=_MILLIS))
    if not adaptive or column.scale <= _MICROS:
        return _logical("int64", f"{_DEBEZIUM}.MicroTime", partial(stamps.clocks, digits_kept=_MICROS))
    return _logical("int64", f"{_DEBEZIUM}.NanoTime", partial(stamps.clocks, digits_kept=_NANOS))


def _timestamp(column: Column, settings: EventSettings) -> Conversion:
    scale = _MILLIS if column.type in {"datetime", "smalldatetime"} else column.scale
    if settings.times is TimeMode.CONNECT:
        return _logical("int64", f"{_CONNECT}.Timestamp", partial(stamps.stamps, digits_kept=_MILLIS))
    if scale <= _MILLIS:
        return _logical("int64", f"{_DEBEZIUM}.Timestamp", partial(stamps.stamps, digits_kept=_MILLIS))
    if scale <= _MICROS:
        return _logical("int64", f"{_DEBEZIUM}.MicroTimestamp", partial(stamps.stamps, digits_kept=_MICROS))
    return _logical("int64", f"{_DEBEZIUM}.NanoTimestamp", partial(stamps.stamps, digits_kept=_NANOS))


def _zoned(_: Column, __: EventSettings) -> Conversion:
    schema = Schema("string", name=f"{_DEBEZIUM}.ZonedTimestamp", version=1)
    return quoted(schema, stamps.offset_stamps, '"1970-01-01T00:00:00Z"')


_CHOICES: dict[str, Callable[[Column, EventSettings], Conversion]] = {
    **dict.fromkeys(_INTEGERS, _integer),
    **dict.fromkeys(_TEXTS, _text),
    **dict.fromkeys(_BYTES, _binary),
    "bit": _bit,
    "xml": _xml,
    "uniqueidentifier": _guid,
    "float": _float,
    "real": _real,
    "decimal": _decimal,
    "numeric": _decimal,
    "money": _money,
    "smallmoney": _money,
    "date": _date,
    "time": _time,
    "datetime": _timestamp,
    "smalldatetime": _timestamp,
    "datetime2": _timestamp,
    "datetimeoffset": _zoned,
}
