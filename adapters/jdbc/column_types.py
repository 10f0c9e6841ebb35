"""The columns of the target's tables: their types by the events' schemas, and values as text for COPY.

| schema of the event | column |
|---|---|
| boolean, int16, int32, int64, float, double, string, bytes | boolean, smallint, integer, bigint, real, double precision, text, bytea |
| Decimal | numeric with its precision and scale |
| VariableScaleDecimal | numeric |
| Date | date |
| Timestamp, MicroTimestamp | timestamp |
| NanoTimestamp, NanoTime | text: PostgreSQL has no nanoseconds |
| ZonedTimestamp, ZonedTime of PostgreSQL | timestamptz, timetz |
| ZonedTimestamp, ZonedTime of other sources | text: it keeps the zone and each digit |
| Time, MicroTime | time |
| Interval | interval |
| Json, Uuid | json, uuid |
| array of these | array |
| map, struct | json |

All else is what the schema says: Enum, Xml and Ltree are text, Bits are bytea, MicroDuration is bigint. A
table may have columns of other types: PostgreSQL reads the same text as one of those, or refuses it.
"""  # noqa: E501  a row of the table

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from adapters.lake.column_types import column
from engine.errors import InvariantError
from engine.events.values.text import each, fill, join, replace_rows, text_from, text_parts
from engine.events.values.times import (
    DAY_US,
    INFINITY_DAYS,
    INFINITY_US,
    MINUS_INFINITY_DAYS,
    MINUS_INFINITY_US,
    civil_date,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.events.record.schema import Schema
    from engine.events.values.text import Text

POSTGRES: Final = "postgresql"
"""The source whose times with a zone are in UTC and have no more digits than the target's."""
_CONNECT, _TIME, _DATA = "org.apache.kafka.connect.data.", "io.debezium.time.", "io.debezium.data."
_BY_TYPE: Final = {
    "boolean": "boolean",
    "int16": "smallint",
    "int32": "integer",
    "int64": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "bytes": "bytea",
    "struct": "json",
    "map": "json",
}
_BY_NAME: Final = {
    f"{_DATA}VariableScaleDecimal": "numeric",
    f"{_CONNECT}Date": "date",
    f"{_TIME}Date": "date",
    f"{_CONNECT}Timestamp": "timestamp without time zone",
    f"{_TIME}Timestamp": "timestamp without time zone",
    f"{_TIME}MicroTimestamp": "timestamp without time zone",
    f"{_TIME}NanoTimestamp": "text",
    f"{_CONNECT}Time": "time without time zone",
    f"{_TIME}Time": "time without time zone",
    f"{_TIME}MicroTime": "time without time zone",
    f"{_TIME}NanoTime": "text",
    f"{_TIME}Interval": "interval",
    f"{_DATA}Json": "json",
    f"{_DATA}Uuid": "uuid",
}
_ZONED: Final = {
    f"{_TIME}ZonedTimestamp": "timestamp with time zone",
    f"{_TIME}ZonedTime": "time with time zone",
}
_MOST_DIGITS: Final = 1000
_US: Final = {f"{_CONNECT}Time": 1000, f"{_TIME}Time": 1000, f"{_TIME}MicroTime": 1}
_FIRST_DAY, _END_DAY = -719_162, 2_932_897
"""0001-01-01, and the day after 9999-12-31, in days since 1970."""
_HEX: Final = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), "<u2")


def column_type(schema: Schema, connector: str) -> str:
    """The type of a column, as PostgreSQL's `format_type` writes it."""
    if schema.type == "array" and schema.items is not None:
        return f"{column_type(schema.items, connector)}[]"
    if schema.name == f"{_CONNECT}Decimal":
        return _decimal_type(dict(schema.parameters))
    if schema.name in _ZONED:
        return _ZONED[schema.name] if connector == POSTGRES else "text"
    return _BY_NAME.get(schema.name or "") or _BY_TYPE[schema.type]


def _decimal_type(parameters: dict[str, str]) -> str:
    scale, digits = int(parameters["scale"]), int(parameters.get("connect.decimal.precision", "0"))
    return f"numeric({digits},{scale})" if 0 <= scale <= digits <= _MOST_DIGITS and digits else "numeric"


def texts(values: pa.Array, schema: Schema) -> Text:
    """Typed values as text that PostgreSQL reads as the column's type; null stays null."""
    shown = _SHOWN_BY_NAME.get(schema.name or "") or _SHOWN_BY_TYPE.get(schema.type)
    return shown(values, schema) if shown else pc.cast(values, pa.large_string())


def _jsons(values: pa.Array, _schema: Schema) -> Text:
    return pa.array(
        [None if value is None else _json(value) for value in values.to_pylist()], pa.large_string()
    )


def _decimals(values: pa.Array, schema: Schema) -> Text:
    made = column(values, schema)
    shown = pc.cast(made.values, pa.large_string())
    return shown if made.texts is None else pc.coalesce(pc.cast(made.texts, pa.large_string()), shown)


def _json(value: Any) -> str:
    return orjson.dumps(_plain(value), default=_other, option=orjson.OPT_NON_STR_KEYS).decode()


def _plain(value: Any) -> Any:
    """Arrow gives maps as lists of pairs."""
    if isinstance(value, list) and value and all(isinstance(item, tuple) for item in value):
        return {key: _plain(item) for key, item in value}
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _other(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _arrays(values: pa.Array, schema: Schema) -> Text:
    """Arrays in PostgreSQL's own notation."""
    if schema.items is None:
        raise InvariantError("an array has no items")
    shown = texts(values.flatten(), schema.items)
    quoted = shown
    for special in ("\\", '"'):
        quoted = pc.replace_substring(quoted, special, "\\" + special)
    quoted = join(['"', quoted, '"'], len(shown))
    sizes = pc.fill_null(pc.list_value_length(values), 0).to_numpy().astype(np.int64)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    lists = pa.LargeListArray.from_arrays(pa.array(offsets), fill(quoted, "NULL"))
    joined = join(["{", pc.binary_join(lists, pa.scalar(",", pa.large_string())), "}"], len(values))
    return pc.if_else(values.is_valid(), joined, pa.scalar(None, pa.large_string()))


def _hex(values: pa.Array, _schema: Schema) -> Text:
    r"""Bytes as `\x` and digits."""
    offsets, data = text_parts(values)
    used = data[offsets[0] : offsets[-1]]
    digits = text_from((offsets - offsets[0]) * 2, np.ascontiguousarray(_HEX[used]).view(np.uint8), values)
    return join(["\\x", digits], len(values))


def _clocks(values: pa.Array, schema: Schema) -> Text:
    """Times of day; a whole day is 24:00, which PostgreSQL has."""
    micros = pc.multiply(pc.cast(values, pa.int64()), _US[schema.name or ""])
    whole = pc.fill_null(pc.equal(micros, DAY_US), fill_value=False)
    stamps = pc.cast(pc.if_else(whole, 0, micros), pa.timestamp("us"))
    shown = pc.utf8_slice_codeunits(pc.cast(stamps, pa.large_string()), len("1970-01-01 "))
    return pc.if_else(whole, pa.scalar("24:00:00", pa.large_string()), shown)


def _nano_clocks(values: pa.Array, _schema: Schema) -> Text:
    stamps = pc.cast(pc.cast(values, pa.int64()), pa.timestamp("ns"))
    return pc.utf8_slice_codeunits(pc.cast(stamps, pa.large_string()), len("1970-01-01 "))


def _dates(values: pa.Array, _schema: Schema) -> Text:
    days = pc.cast(values, pa.int32())
    fits = _within(days, _FIRST_DAY, _END_DAY)
    shown = pc.cast(pc.if_else(fits, values, pa.scalar(None, values.type)), pa.large_string())
    return _with_odd(shown, days, fits, _odd_date)


def _stamps(values: pa.Array, _schema: Schema) -> Text:
    units = {"ms": 1000, "us": 1}
    if values.type.unit not in units:
        return pc.cast(values, pa.large_string())
    factor, numbers = units[values.type.unit], pc.cast(values, pa.int64())
    day = DAY_US // factor
    fits = _within(numbers, _FIRST_DAY * day, _END_DAY * day)
    shown = pc.cast(pc.if_else(fits, values, pa.scalar(None, values.type)), pa.large_string())
    return _with_odd(shown, numbers, fits, lambda number: _odd_stamp(number, factor))


def _within(numbers: pa.Array, least: int, end: int) -> pa.Array:
    fits = pc.and_(pc.greater_equal(numbers, least), pc.less(numbers, end))
    return pc.fill_null(fits, fill_value=True)


def _with_odd(shown: Text, numbers: pa.Array, fits: pa.Array, odd: Callable[[int], str]) -> Text:
    rows = np.flatnonzero(~fits.to_numpy(zero_copy_only=False))
    return replace_rows(shown, rows, [odd(number) for number in numbers.take(pa.array(rows)).to_pylist()])


def _odd_date(day: int) -> str:
    """A day that is infinite or beyond the years 1 to 9999."""
    if day in {INFINITY_DAYS, MINUS_INFINITY_DAYS}:
        return "infinity" if day == INFINITY_DAYS else "-infinity"
    return "{} {}".format(*_calendar(day)).strip()


def _odd_stamp(number: int, factor: int) -> str:
    for infinity, shown in ((INFINITY_US, "infinity"), (MINUS_INFINITY_US, "-infinity")):
        if number == infinity // factor:
            return shown
    day, clock = divmod(number * factor, DAY_US)
    seconds, micros = divmod(clock, 1_000_000)
    date, era = _calendar(day)
    time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"
    return f"{date} {time} {era}".strip()


def _calendar(day: int) -> tuple[str, str]:
    """A date as PostgreSQL writes it, and `BC` for the years before 1."""
    year, month, date = civil_date(day)
    shown, era = (year, "") if year > 0 else (1 - year, "BC")
    return f"{shown:04}-{month:02}-{date:02}", era


def _zoned(values: Text, _schema: Schema) -> Text:
    """Java writes years beyond 9999 with a sign, and those before 1 as 0, -1 and so on."""
    given = pc.cast(values, pa.large_string())
    plain = pc.fill_null(pc.match_substring_regex(given, "^[0-9]*[1-9][0-9]*-"), fill_value=True)
    if pc.all(plain, skip_nulls=True).as_py() is not False:
        return given
    return each(given, _odd_zoned)


def _odd_zoned(text: str) -> str:
    if text.endswith("infinity"):
        return text
    sign, rest = (text[0], text[1:]) if text[0] in "+-" else ("", text)
    year, dash, after = rest.partition("-")
    number = -int(year) if sign == "-" else int(year)
    return f"{year}{dash}{after}" if number > 0 else f"{1 - number:04}{dash}{after} BC"


_SHOWN_BY_NAME: Final[dict[str, Callable[[pa.Array, Schema], Text]]] = {
    f"{_CONNECT}Decimal": _decimals,
    f"{_DATA}VariableScaleDecimal": _decimals,
    **dict.fromkeys((f"{_CONNECT}Date", f"{_TIME}Date"), _dates),
    **dict.fromkeys((f"{_CONNECT}Timestamp", f"{_TIME}Timestamp"), _stamps),
    **dict.fromkeys((f"{_TIME}MicroTimestamp", f"{_TIME}NanoTimestamp"), _stamps),
    **dict.fromkeys(_US, _clocks),
    f"{_TIME}NanoTime": _nano_clocks,
    f"{_TIME}ZonedTimestamp": _zoned,
}
_SHOWN_BY_TYPE: Final[dict[str, Callable[[pa.Array, Schema], Text]]] = {
    "array": _arrays,
    "bytes": _hex,
    "map": _jsons,
    "struct": _jsons,
}


def escaped(shown: Text) -> Text:
    """Text as a field of COPY; null stays null."""
    if not pc.any(pc.match_substring_regex(shown, "[\\\\\n\r\t]"), min_count=0).as_py():
        return shown
    for special, written in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        shown = pc.replace_substring(shown, special, written)
    return shown
