"""Values that no Arrow kernel reads: hstore, intervals, money, bits, points, geometries.

Each function turns one value's text (or a column of it) into JSON or the inside of a JSON string.
Text is read as PostgreSQL's output functions write it under `IntervalStyle` postgres.
"""

from __future__ import annotations

import base64
import re
import struct
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.events.java import hash_order
from engine.events.numbers import base64_chars, doubles_as_java, java_double
from engine.events.settings import BinaryMode
from engine.events.text import (
    Ints,
    Text,
    digits,
    fill,
    join,
    mostly,
    quote,
    scalar,
    text_from,
)
from engine.events.times import clock_us

if TYPE_CHECKING:
    from collections.abc import Callable

MONTH_US = 2_629_800_000_000
"""A month of an interval in microseconds: 30.4375 days."""
DAY_US = 86_400_000_000
_LONGEST = 2**63 - 1
_INTERVAL = re.compile(r"([+-]?\d+) (year|mon|day)s?|([+-]?)(\d+:\d\d:\d\d(?:\.\d+)?)")
_COMMON_INTERVAL = (
    r"^(?:\+?(?P<years>-?\d{1,5}) years? ?)?(?:\+?(?P<months>-?\d\d?) mons? ?)?"
    r"(?:\+?(?P<days>-?\d{1,7}) days? ?)?"
    r"(?:(?P<sign>[+-]?)(?P<hours>\d{2,7}):(?P<minutes>\d\d):(?P<seconds>\d\d)(?:\.(?P<fraction>\d{1,6}))?)?$"
)
"""Parts so small that their sum in microseconds fits 64 bits."""
_LONGEST_INTERVAL = 60
_COMMON_POINT = r"^\((?P<x>-?[0-9.e+-]+),(?P<y>-?[0-9.e+-]+)\)$"
_LONGEST_POINT = 60
_COMMON_MONEY = r"^-?\$[0-9,]+(?:\.[0-9]+)?$"
_LONGEST_MONEY = 40
_NUMBER = re.compile(r"-?(?:\d+(?:\.\d*)?(?:e[+-]?\d+)?|Infinity)|NaN")
_MONEY = re.compile(r"[^0-9.]")
_EWKB_SRID = 0x20000000


def distinct(texts: Text, convert: Callable[[str], str | None]) -> Text:
    """`convert` of every value, each distinct text once."""
    encoded = texts.dictionary_encode()
    values = [convert(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(values, pa.large_string()).take(encoded.indices)


def interval_parts(text: str) -> tuple[int, int, int]:
    """Months, days and microseconds."""
    months = days = micros = 0
    for count, unit, sign, clock in _INTERVAL.findall(text):
        if clock:
            micros = -clock_us(clock) if sign == "-" else clock_us(clock)
        elif unit == "day":
            days = int(count)
        else:
            months += int(count) * (12 if unit == "year" else 1)
    return months, days, micros


def interval_micros(text: str) -> str:
    """Microseconds, a month being 30.4375 days; beyond 64 bits the greatest or least number."""
    if text.endswith("infinity"):
        return str(-_LONGEST - 1 if text[0] == "-" else _LONGEST)
    months, days, micros = interval_parts(text)
    total = months * MONTH_US + days * DAY_US + micros
    return str(max(-_LONGEST - 1, min(_LONGEST, total)))


def intervals_micros(texts: Text) -> Text:
    """`interval_micros` of a column; intervals of great parts one by one."""
    return mostly(texts, _intervals_fast, _COMMON_INTERVAL, interval_micros, _LONGEST_INTERVAL)


def _intervals_fast(texts: Text) -> Text:
    parts = pc.extract_regex(texts, _COMMON_INTERVAL)
    if parts.null_count > texts.null_count:
        raise pa.ArrowInvalid("an interval in a form that is rare")

    def part(name: str) -> Ints:
        given = fill(pc.struct_field(parts, name), "")
        numbers: Ints = pc.cast(pc.if_else(pc.equal(given, ""), scalar("0"), given), pa.int64()).to_numpy()
        return numbers

    months, days = 12 * part("years") + part("months"), part("days")
    fraction = pc.utf8_rpad(fill(pc.struct_field(parts, "fraction"), ""), 6, "0")
    seconds = 3600 * part("hours") + 60 * part("minutes") + part("seconds")
    clock = 1_000_000 * seconds + pc.cast(fraction, pa.int64()).to_numpy()
    negative = pc.equal(fill(pc.struct_field(parts, "sign"), ""), "-").to_numpy(zero_copy_only=False)
    total = MONTH_US * months + DAY_US * days + np.where(negative, -clock, clock)
    return digits(pa.array(total, mask=pc.is_null(texts).to_numpy(zero_copy_only=False)))


def interval_iso(text: str) -> str:
    """`P1Y2M3DT4H5M6.789S`, every part present, each with its own sign."""
    if text.endswith("infinity"):
        return text
    months, days, micros = interval_parts(text)
    sign = "-" if micros < 0 else ""
    years = abs(months) // 12 * (-1 if months < 0 else 1)
    seconds, fraction = divmod(abs(micros), 1_000_000)
    hours, minutes, seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    shown = f"{seconds}.{fraction:06}".rstrip("0") if fraction else str(seconds)
    clock = "".join(
        f"{sign if part.strip('0.') else ''}{part}{unit}"
        for part, unit in ((str(hours), "H"), (str(minutes), "M"), (shown, "S"))
    )
    return f"P{years}Y{months - 12 * years}M{days}DT{clock}"


def bits(text: str, mode: BinaryMode = BinaryMode.BYTES) -> str:
    """A bit string as bytes, least significant first, zero bytes at the end dropped."""
    del mode
    size = (len(text) + 7) // 8
    data = int(text or "0", 2).to_bytes(size, "little").rstrip(b"\0")
    return base64.b64encode(data).decode()


def money(text: str) -> str:
    """`-$1,234.50` or `($1,234.50)` as a decimal number."""
    negative = "-" in text or text.startswith("(")
    return ("-" if negative else "") + _MONEY.sub("", text)


def moneys(texts: Text) -> Text:
    """`money` of a column."""
    return mostly(texts, _moneys_fast, _COMMON_MONEY, money, _LONGEST_MONEY)


def _moneys_fast(texts: Text) -> Text:
    if not pc.all(pc.match_substring_regex(texts, _COMMON_MONEY), min_count=0).as_py():
        raise pa.ArrowInvalid("money in a form that is rare")
    return pc.replace_substring(pc.replace_substring(texts, "$", ""), ",", "")


def java_numbers(text: str) -> str:
    """A geometric value with its numbers as Java writes them, as the JDBC driver's objects do."""
    return _NUMBER.sub(lambda number: java_double(number[0]).strip('"'), text)


def point(text: str) -> str:
    """`(x,y)` as the struct of a point, with its well-known bytes."""
    x, y = text.strip("()").split(",")
    wkb = base64.b64encode(struct.pack("<BIdd", 1, 1, float(x), float(y))).decode()
    return f'{{"x":{java_double(x)},"y":{java_double(y)},"wkb":"{wkb}","srid":null}}'


def points(texts: Text) -> Text:
    """`point` of a column."""
    return mostly(texts, _points_fast, _COMMON_POINT, point, _LONGEST_POINT)


def _points_fast(texts: Text) -> Text:
    parts = pc.extract_regex(texts, _COMMON_POINT)
    if parts.null_count > texts.null_count:
        raise pa.ArrowInvalid("a point in a form that is rare")
    x, y = fill(pc.struct_field(parts, "x"), "0"), fill(pc.struct_field(parts, "y"), "0")
    raw = np.empty((len(texts), 21), np.uint8)
    raw[:, :5] = (1, 1, 0, 0, 0)
    for place, numbers in ((5, x), (13, y)):
        binary = pc.cast(numbers, pa.float64()).to_numpy().astype("<f8")
        raw[:, place : place + 8] = binary.view(np.uint8).reshape(-1, 8)
    wkb = text_from(np.arange(len(texts) + 1) * 28, base64_chars(raw.reshape(-1)), texts)
    members = ['{"x":', doubles_as_java(x), ',"y":', doubles_as_java(y), ',"wkb":"', wkb, '","srid":null}']
    return join(members, len(texts))


def geometry(text: str) -> str:
    """PostGIS's hex form as the struct of a geometry."""
    data = bytes.fromhex(text)
    order = "<" if data[:1] == b"\1" else ">"
    kind, srid = struct.unpack_from(f"{order}II", data, 1) if len(data) >= 9 else (0, 0)
    number = str(srid) if kind & _EWKB_SRID else "null"
    return f'{{"wkb":"{base64.b64encode(data).decode()}","srid":{number}}}'


def hstore_pairs(text: str) -> list[tuple[str, str | None]]:
    """The pairs of `"a"=>"1", "n"=>NULL`."""
    pairs: list[tuple[str, str | None]] = []
    for match in re.finditer(r'"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|NULL)', text, re.DOTALL):
        key, value = match.groups()
        pairs.append((unescaped(key), None if value is None else unescaped(value)))
    return pairs


def hstore_json(text: str) -> str:
    """A JSON object in the order in which Java's `HashMap` gives its entries."""
    pairs = hash_order(hstore_pairs(text), lambda pair: pair[0])
    shown = (f"{quote(key)}:{'null' if value is None else quote(value)}" for key, value in pairs)
    return "{" + ",".join(shown) + "}"


def unescaped(text: str) -> str:
    """Text without the backslashes that quote its characters."""
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
