"""A column of every type of SQL Server that events carry, and what a consumer must read of the server's text.

The server shows its values by CONVERT. What consumers of Kafka Connect show of them is worked out here, in
Python, with nothing of ours.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_DAY_S = 86_400


def _same(text: str) -> str:
    return text


def _bits(text: str) -> str:
    return {"0": "false", "1": "true"}[text]


def _single(text: str) -> str:
    return struct.pack(">f", float(text)).hex()


def _double(text: str) -> str:
    return struct.pack(">d", float(text)).hex()


def _plain(text: str) -> str:
    return f"{Decimal(text):f}"


def _octets(text: str) -> str:
    return text.lower()


def _days(text: str) -> str:
    return str((date.fromisoformat(text) - date(1970, 1, 1)).days)


def _units(digits: int) -> Callable[[str], str]:
    """A time, or a date and a time, as units of 10**-digits seconds since midnight or the epoch."""

    def convert(text: str) -> str:
        day, _, clock = text.rpartition(" ")
        hours, minutes, seconds = clock.split(":")
        whole, _, fraction = seconds.partition(".")
        days = (date.fromisoformat(day) - date(1970, 1, 1)).days if day else 0
        total = days * _DAY_S + int(hours) * 3600 + int(minutes) * 60 + int(whole)
        return str(total * 10**digits + int(fraction.ljust(digits, "0")[:digits] or 0))

    return convert


def _zoned(text: str) -> str:
    """As Java's OffsetDateTime writes it; no value here has a finer fraction than milliseconds."""
    local, _, zone = text.rpartition(" ")
    hours, minutes = map(int, zone[1:].split(":"))
    offset = timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)
    moment = datetime.fromisoformat(local[:26]).replace(tzinfo=timezone(offset))
    shown = moment.strftime("%Y-%m-%dT%H:%M:%S") + f".{moment.microsecond // 1000:03}".rstrip("0").rstrip(".")
    return shown + ("Z" if not offset else zone)


@dataclass(frozen=True, slots=True)
class Column:
    """A column, some values as SQL, how the server shows them, and what a consumer reads then.

    `sink`: a JDBC sink's target shows the same text. `parsed` is there for `rows.differences`.
    """

    name: str
    type: str
    values: tuple[str, ...]
    query: str = "CONVERT(nvarchar(max), {0})"
    meant: Callable[[str], str] = _same
    sink: bool = False
    parsed: bool = False


_STYLE_3, _STYLE_121, _HEX = (
    "CONVERT(varchar(40), {0}, 3)",
    "CONVERT(varchar(40), {0}, 121)",
    "CONVERT(varchar(max), {0}, 2)",
)
_REALS = ("1000000", "9999999", "-1234567", "3E10", "1E-7", "0.1")
_FLOATS = ("1000000", "1E23", "0.002", "6.602055686667299E17", "1.7976931348623157E308")
COLUMNS = (
    Column("b", "bit", ("1", "0"), meant=_bits, sink=True),
    Column("ti", "tinyint", ("255",), sink=True),
    Column("si", "smallint", ("-32768",), sink=True),
    Column("i", "int", ("2147483647",), sink=True),
    Column("bi", "bigint", ("9223372036854775807", "-9223372036854775808"), sink=True),
    Column("de", "decimal(12, 3)", ("-123456789.125", "0.5"), meant=_plain, sink=True),
    Column("nu", "numeric(38, 0)", ("12345678901234567890123456789012345678",), meant=_plain, sink=True),
    Column("mo", "money", ("922337203685477.5807", "-0.0001"), "CONVERT(varchar(40), {0}, 2)", sink=True),
    Column("sm", "smallmoney", ("-214748.3648",), "CONVERT(varchar(40), {0}, 2)", sink=True),
    Column("re", "real", _REALS, _STYLE_3, _single),
    Column("fl", "float", _FLOATS, _STYLE_3, _double),
    Column("ch", "char(5)", ("'ab'",)),
    Column("va", "varchar(20)", ("'it''s \"x\"\\'", "''"), sink=True),
    Column("nc", "nchar(4)", ("N'č'",)),
    Column("nv", "nvarchar(20)", ("N'ž😀'", "N''"), sink=True),
    Column("vm", "varchar(max)", ("'long'",), sink=True),
    Column("bn", "binary(4)", ("0x01020304",), _HEX, _octets),
    Column("vb", "varbinary(20)", ("0xDEADBEEF", "0x00FF"), _HEX, _octets),
    Column("gu", "uniqueidentifier", ("'6F9619FF-8B86-D011-B42D-00C04FC964FF'",), sink=True),
    Column("da", "date", ("'0001-01-01'", "'2024-02-29'"), _STYLE_121, _days),
    Column("t0", "time(0)", ("'23:59:59'",), _STYLE_121, _units(3)),
    Column("t6", "time(6)", ("'12:34:56.123456'",), _STYLE_121, _units(6)),
    Column("t7", "time(7)", ("'12:34:56.1234567'",), _STYLE_121, _units(9)),
    Column("dt", "datetime", ("'2018-07-13 13:23:45.780'",), _STYLE_121, _units(3)),
    Column("sd", "smalldatetime", ("'2018-07-13 14:24:00'",), _STYLE_121, _units(3)),
    Column("d3", "datetime2(3)", ("'2018-06-20 15:13:16.945'",), _STYLE_121, _units(3)),
    Column("d6", "datetime2(6)", ("'1969-12-31 23:59:59.999999'",), _STYLE_121, _units(6)),
    Column("d7", "datetime2(7)", ("'2018-06-20 15:13:16.9451047'",), _STYLE_121, _units(9)),
    Column(
        "dz",
        "datetimeoffset(7)",
        ("'2018-07-13 12:23:45.4560000 +11:00'", "'2018-07-13 12:23:45 +00:00'"),
        _STYLE_121,
        _zoned,
    ),
    Column("xm", "xml", ("N'<a>b</a>'",)),
)
ROWS = max(len(column.values) for column in COLUMNS)


def create(table: str) -> str:
    """The table with an integer key and these columns."""
    described = ", ".join(f"{column.name} {column.type} NULL" for column in COLUMNS)
    return f"CREATE TABLE {table} (id int NOT NULL PRIMARY KEY, {described})"


def insert(table: str, key: int, row: int) -> str:
    """A row of the values at this place; NULL where a column has no more, and behind the last."""
    values = [column.values[row] if row < len(column.values) else "NULL" for column in COLUMNS]
    names = ", ".join(column.name for column in COLUMNS)
    return f"INSERT INTO {table} (id, {names}) VALUES ({key}, {', '.join(values)})"


def select(table: str) -> str:
    """The server's own text of the rows, by key."""
    shown = ", ".join(column.query.format(column.name) for column in COLUMNS)
    return f"SELECT id, {shown} FROM {table} ORDER BY id"


def meant(row: tuple[object, ...]) -> tuple[str | None, ...]:
    """What a consumer must read of a row that `select` gave."""
    values = zip(COLUMNS, row[1:], strict=True)
    return (str(row[0]), *(None if text is None else column.meant(str(text)) for column, text in values))
