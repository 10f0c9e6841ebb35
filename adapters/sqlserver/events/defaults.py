"""Parses a column default's expression into the default of its schema.

Only literals have one. sys.default_constraints shows them in parentheses: `((1))`, `(N'it''s')`, `(0x0102)`.
Calls, NULL, and defaults of uniqueidentifier and xml have none, as in Debezium 2.1.4.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.sqlserver.server.table import Column

_STRING = re.compile(r"N?'(?P<text>(?:[^']|'')*)'", re.DOTALL)
_NUMBER = re.compile(r"\(*(?P<text>[+-]?\$?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\)*", re.IGNORECASE)
_HEX = re.compile(r"0x(?P<text>(?:[0-9a-f]{2})*)", re.IGNORECASE)
_MOMENT = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2}|\d{8})?(?:^|$|[ T])"
    r"(?:(?P<clock>\d{2}:\d{2}(?::\d{2})?)(?:\.(?P<fraction>\d{1,9}))?)?(?: ?(?P<zone>Z|[+-]\d{2}:\d{2}))?"
)
_DAYS_OF_CLOCKS = "1900-01-01"
"""The date that the server adds to a time of day without one."""
_STORED = Context(prec=38, rounding=ROUND_HALF_UP)
"""The server's decimals have up to 38 digits, and Python's context only 28."""


def default_text(column: Column) -> str | None:
    """The default as the server would write its value, ready for the type's conversion, or None.

    A literal beyond the type's range has none: no row can get it.
    """
    if column.default is None:
        return None
    read = _READ.get(column.type)
    try:
        return read(column, _bare(column.default)) if read else None
    except ArithmeticError:
        return None


def _bare(expression: str) -> str:
    """The expression without the parentheses around it."""
    text = expression.strip()
    while text.startswith("(") and text.endswith(")") and _closes_at_end(text):
        text = text[1:-1].strip()
    return text


def _closes_at_end(text: str) -> bool:
    """Whether the last parenthesis closes the first. Parentheses inside quotes don't count."""
    depth, quoted = 0, False
    for at, character in enumerate(text):
        if character == "'":
            quoted = not quoted
        elif not quoted:
            depth += (character == "(") - (character == ")")
            if depth == 0:
                return at == len(text) - 1
    return False


def _string(text: str) -> str | None:
    found = _STRING.fullmatch(text)
    return found["text"].replace("''", "'") if found else None


def _number(text: str) -> str | None:
    found = _NUMBER.fullmatch(text)
    return found["text"].replace("$", "") if found else None


def _integer(_: Column, text: str) -> str | None:
    number = _number(text)
    return number.rstrip(".").lstrip("+") if number and re.fullmatch(r"[+-]?\d+\.?", number) else None


def _bit(_: Column, text: str) -> str | None:
    word = _string(text)
    if word is not None:
        return {"true": "1", "false": "0"}.get(word.strip().lower())
    number = _number(text)
    return None if number is None else "1" if Decimal(number) else "0"


def _exact(column: Column, text: str) -> str | None:
    number = _number(text)
    if number is None:
        return None
    scale = 4 if column.type.endswith("money") else column.scale
    return f"{Decimal(number).quantize(Decimal(1).scaleb(-scale), context=_STORED):f}"


def _approximate(_: Column, text: str) -> str | None:
    return _number(text)


def _characters(_: Column, text: str) -> str | None:
    word = _string(text)
    return word if word is not None else _number(text)


def _bytes(_: Column, text: str) -> str | None:
    found = _HEX.fullmatch(text)
    return found["text"].upper() if found else None


def _moment(column: Column, text: str) -> str | None:
    word = _string(text)
    found = _MOMENT.fullmatch(word.strip()) if word is not None else None
    if found is None or not (found["date"] or found["clock"]):
        return None
    day = found["date"] or _DAYS_OF_CLOCKS
    day = day if "-" in day else f"{day[:4]}-{day[4:6]}-{day[6:]}"
    clock = (found["clock"] or "00:00").ljust(len("hh:mm:ss"), "\0").replace("\0\0\0", ":00")
    fraction = (found["fraction"] or "").ljust(9, "0")
    zone = "+00:00" if found["zone"] in {None, "Z"} else found["zone"]
    return _shown(column, day, clock, fraction, zone)


def _shown(column: Column, day: str, clock: str, fraction: str, zone: str) -> str | None:
    if column.type == "date":
        return day
    if column.type in {"datetime", "smalldatetime"}:
        return _rounded(f"{day} {clock}.{fraction[:6]}", whole_minutes=column.type == "smalldatetime")
    exact = clock + (f".{fraction[: column.scale]}" if column.scale else "")
    if column.type == "time":
        return exact
    return f"{day} {exact} {zone}" if column.type == "datetimeoffset" else f"{day} {exact}"


def _rounded(stamp: str, *, whole_minutes: bool) -> str | None:
    """Rounded as the type stores it: to the minute, or to a 300th of a second."""
    try:
        moment = datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)
    except ValueError:
        return None
    if whole_minutes:
        moment += timedelta(seconds=30) if moment.second + moment.microsecond / 1e6 > 29.998 else timedelta()
        return f"{moment:%Y-%m-%d %H:%M}:00"
    ticks = round(moment.microsecond * 300 / 1_000_000)
    moment = moment.replace(microsecond=0) + timedelta(milliseconds=round(ticks * 10 / 3))
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03}"


_READ: dict[str, Callable[[Column, str], str | None]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _integer),
    **dict.fromkeys(("decimal", "numeric", "money", "smallmoney"), _exact),
    **dict.fromkeys(("real", "float"), _approximate),
    **dict.fromkeys(("char", "varchar", "text", "nchar", "nvarchar", "ntext"), _characters),
    **dict.fromkeys(("binary", "varbinary", "image"), _bytes),
    **dict.fromkeys(("date", "time", "datetime", "smalldatetime", "datetime2", "datetimeoffset"), _moment),
    "bit": _bit,
}
