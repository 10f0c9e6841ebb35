"""Values that no Arrow kernel parses: hstore, intervals, money, bits, points, geometries.

Each function turns one value's text (or a column of texts) into JSON or the inside of a JSON string. Texts
are in the form of PostgreSQL's output functions, with `IntervalStyle` set to postgres.
"""

from __future__ import annotations

import base64
import re
import struct
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.events.settings import BinaryMode
from engine.events.values.floats.java_exact import java_text
from engine.events.values.floats.java_floats import doubles_as_java, java_double
from engine.events.values.java import hash_order
from engine.events.values.json_text import quote, quote_unpaired
from engine.events.values.numbers import base64_chars
from engine.events.values.text import Ints, Text, digits, fill, join, mostly, scalar, text_from, text_parts
from engine.events.values.times import clock_us

if TYPE_CHECKING:
    from collections.abc import Callable

MONTH_US = 2_629_800_000_000
"""A month of an interval in microseconds: 30.4375 days."""
DAY_US = 86_400_000_000
_LONGEST = 2**63 - 1
_INTERVAL = re.compile(r"([+-]?\d+) (year|mon|day)s?|([+-]?)(\d+:\d\d:\d\d(?:\.\d+)?)")
_COMMON_INTERVAL = (
    r"^(?:[+-]?\d{1,5} years? ?)?(?:[+-]?\d\d? mons? ?)?(?:[+-]?\d{1,7} days? ?)?"
    r"(?:[+-]?\d{2,7}:\d\d:\d\d(?:\.\d{1,6})?)?$"
)
_LONGEST_INTERVAL = 60
_SAFE = 2**62
_COMMON_POINT = r"^\(-?[0-9.e+-]+,-?[0-9.e+-]+\)$"
_LONGEST_POINT = 60
_COMMON_MONEY = r"^-?\$[0-9,]+(?:\.[0-9]+)?$"
_LONGEST_MONEY = 40
_IN_MONEY = np.zeros(256, bool)
_IN_MONEY[np.frombuffer(b"0123456789$,.-", np.uint8)] = True
_NUMBER = re.compile(r"-?(?:\d+(?:\.\d*)?(?:e[+-]?\d+)?|Infinity)|NaN")
_MONEY = re.compile(r"[^0-9.]")
_EWKB_SRID = 0x20000000


def distinct(texts: Text, convert: Callable[[str], str | None]) -> Text:
    """Apply `convert` to every value, once per distinct text."""
    encoded = texts.dictionary_encode()
    values = [convert(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(values, pa.large_string()).take(encoded.indices)


def interval_parts(text: str) -> tuple[int, int, int]:
    """The interval's months, days and microseconds."""
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
    """The interval in microseconds, a month being 30.4375 days; clamped to 64 bits."""
    if text.endswith("infinity"):
        return str(-_LONGEST - 1 if text[0] == "-" else _LONGEST)
    months, days, micros = interval_parts(text)
    total = months * MONTH_US + days * DAY_US + micros
    return str(max(-_LONGEST - 1, min(_LONGEST, total)))


def intervals_micros(texts: Text) -> Text:
    """`interval_micros` of a column; intervals with very large parts are converted one by one."""
    return mostly(texts, _intervals_fast, _COMMON_INTERVAL, interval_micros, _LONGEST_INTERVAL)


def _intervals_fast(texts: Text) -> Text:
    """Convert the clock after the last blank in bulk, and what precedes it once per distinct text."""
    timed = pc.match_substring(texts, ":")
    clocked = pc.if_else(timed, texts, join([texts, " 00:00:00"], len(texts)))
    cuts = pc.split_pattern(fill(clocked, "00:00:00"), " ", max_splits=1, reverse=True)
    parts, ends = cuts.flatten(), cuts.offsets.to_numpy()
    days = pc.if_else(pa.array(np.diff(ends) > 1), parts.take(pa.array(ends[:-1])), scalar(""))
    total = _distinct_micros(days) + _clocks_micros(parts.take(pa.array(ends[1:] - 1)))
    return digits(pa.array(total, mask=pc.is_null(texts).to_numpy(zero_copy_only=False)))


def _distinct_micros(texts: Text) -> Ints:
    encoded = texts.dictionary_encode()
    micros = [int(interval_micros(text)) for text in encoded.dictionary.to_pylist()]
    if any(abs(duration) > _SAFE for duration in micros):
        raise pa.ArrowInvalid("an interval beyond the centuries")
    chosen: Ints = np.array(micros, np.int64)[encoded.indices.to_numpy()]
    return chosen


def _clocks_micros(texts: Text) -> Ints:
    """Parse `[-]h:mm:ss[.ffffff]` with any number of hours."""
    parts = pc.split_pattern(pc.ascii_ltrim(texts, "+"), ":")
    if (np.diff(parts.offsets.to_numpy()) != 3).any():
        raise pa.ArrowInvalid("not a clock")
    hours, minutes, seconds = pc.cast(parts.flatten(), pa.float64()).to_numpy().reshape(-1, 3).T
    micros = (np.abs(hours) * 3600 + minutes * 60).astype(np.int64) * 1_000_000
    micros += np.rint(seconds * 1e6).astype(np.int64)
    signed: Ints = np.where(np.signbit(hours), -micros, micros)
    return signed


def interval_iso(text: str) -> str:
    """The interval as `P1Y2M3DT4H5M6.789S`, with every part present and signed."""
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
    """A bit string as bytes, least significant first, without trailing zero bytes."""
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
    offsets, data = text_parts(fill(texts, ""))
    if not _IN_MONEY[data[offsets[0] : offsets[-1]]].all():
        raise pa.ArrowInvalid("money in another form")
    return pc.replace_substring(pc.replace_substring(texts, "$", ""), ",", "")


def java_numbers(text: str) -> str:
    """A geometric value with its numbers as Java writes them, as the JDBC driver's objects do."""
    return _NUMBER.sub(lambda number: java_text(float(number[0])), text)


def point(text: str) -> str:
    """`(x,y)` as the struct of a point, with its WKB."""
    x, y = text.strip("()").split(",")
    wkb = base64.b64encode(struct.pack("<BIdd", 1, 1, float(x), float(y))).decode()
    return f'{{"x":{java_double(x)},"y":{java_double(y)},"wkb":"{wkb}","srid":null}}'


def points(texts: Text) -> Text:
    """`point` of a column."""
    return mostly(texts, _points_fast, _COMMON_POINT, point, _LONGEST_POINT)


def _points_fast(texts: Text) -> Text:
    parts = pc.split_pattern(pc.ascii_trim(fill(texts, "(0,0)"), "()"), ",")
    if (np.diff(parts.offsets.to_numpy()) != 2).any():
        raise pa.ArrowInvalid("not a point")
    numbers = parts.flatten()
    raw = np.empty((len(texts), 21), np.uint8)
    raw[:, :5] = (1, 1, 0, 0, 0)
    raw[:, 5:] = pc.cast(numbers, pa.float64()).to_numpy().astype("<f8").view(np.uint8).reshape(-1, 16)
    wkb = text_from(np.arange(len(texts) + 1) * 28, base64_chars(raw.reshape(-1)), texts)
    shown = doubles_as_java(numbers)
    x, y = (shown.take(pa.array(np.arange(place, len(shown), 2))) for place in (0, 1))
    return join(['{"x":', x, ',"y":', y, ',"wkb":"', wkb, '","srid":null}'], len(texts))


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


def hstore_map(text: str) -> str:
    """A map, in the order in which Java's `HashMap` returns its entries."""
    return _hstore_object(text, quote)


def hstore_json(text: str) -> str:
    """The text of a JSON object, in the same order."""
    return _hstore_object(text, quote_unpaired)


def _hstore_object(text: str, string: Callable[[str], str]) -> str:
    pairs = hash_order(hstore_pairs(text), lambda pair: pair[0])
    shown = (f"{string(key)}:{'null' if value is None else string(value)}" for key, value in pairs)
    return "{" + ",".join(shown) + "}"


def unescaped(text: str) -> str:
    """Text without the backslashes that escape its characters."""
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
