"""Values that no Arrow kernel reads: arrays, hstore, intervals, bits, points, geometries.

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
from engine.events.numbers import java_double
from engine.events.settings import BinaryMode
from engine.events.text import Ints, Text, fill, join, quote, replace_rows, scalar, slices, text_parts
from engine.events.times import clock_us

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MONTH_US = 2_629_800_000_000
"""A month of an interval in microseconds: 30.4375 days."""
DAY_US = 86_400_000_000
_LONGEST = 2**63 - 1
_INTERVAL = re.compile(r"([+-]?\d+) (year|mon|day)s?|([+-]?)(\d+:\d\d:\d\d(?:\.\d+)?)")
_NUMBER = re.compile(r"-?(?:\d+(?:\.\d*)?(?:e[+-]?\d+)?|Infinity)|NaN")
_MONEY = re.compile(r"[^0-9.]")
_EWKB_SRID = 0x20000000
_NULL = pa.scalar(None, pa.large_string())
_ABSENT = pa.array(["NULL", ""], pa.large_string())
"""What stands for NULL between commas, and for nothing between braces; as text both are quoted."""


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


def java_numbers(text: str) -> str:
    """A geometric value with its numbers as Java writes them, as the JDBC driver's objects do."""
    return _NUMBER.sub(lambda number: java_double(number[0]).strip('"'), text)


def point(text: str) -> str:
    """`(x,y)` as the struct of a point, with its well-known bytes."""
    x, y = text.strip("()").split(",")
    wkb = base64.b64encode(struct.pack("<BIdd", 1, 1, float(x), float(y))).decode()
    return f'{{"x":{java_double(x)},"y":{java_double(y)},"wkb":"{wkb}","srid":null}}'


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
        pairs.append((_unescaped(key), None if value is None else _unescaped(value)))
    return pairs


def hstore_json(text: str) -> str:
    """A JSON object in the order in which Java's `HashMap` gives its entries."""
    pairs = hash_order(hstore_pairs(text), lambda pair: pair[0])
    shown = (f"{quote(key)}:{'null' if value is None else quote(value)}" for key, value in pairs)
    return "{" + ",".join(shown) + "}"


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"|((?:[^{},;"\\]|\\.)+)', re.DOTALL)


def array_items(text: str, delimiter: str = ",") -> list[str | None]:
    """The items of an array's text in order, those of inner arrays one after the other; None is NULL."""
    if text.startswith("["):  # bounds other than 1 stand before the array: [0:2]={…}
        text = text[text.index("=") + 1 :]
    items: list[str | None] = []
    for match in _ITEM.finditer(text if delimiter != ";" else text.replace(",", "\\,")):
        quoted, plain = match.groups()
        if quoted is not None:
            items.append(_unescaped(quoted))
        else:
            items.append(None if plain == "NULL" else _unescaped(plain))
    return items


def arrays(texts: Text, encode: Callable[[Text], Text], *, quoted: bool) -> Text:
    """Arrays as JSON arrays.

    Arrays of one dimension are split at their commas in bulk, all items going through `encode` at
    once. Those with an escape, a comma or a quote inside an item, inner arrays or bounds of their own
    are read item by item.
    """
    lists = pc.split_pattern(_without_braces(texts), ",")
    items = lists.flatten()
    fine = pc.match_substring_regex(items, r'^(?:"[^"\\]*"|[^"\\{}\[]*)$')
    if not pc.all(fine, min_count=0).as_py():
        odd = np.unique(pc.list_parent_indices(lists).filter(pc.invert(fine)).to_numpy())
        return _with_odd_arrays(texts, odd, encode, quoted=quoted)
    absent = pc.is_in(items, _ABSENT)
    marked = pc.starts_with(items, '"')
    bare = pc.utf8_trim(items, '"') if pc.any(marked).as_py() else items
    values = pc.if_else(absent, _NULL, bare)
    shown = encode(values)
    shown = fill(join(['"', shown, '"'], len(shown)) if quoted else shown, "null")
    joined = pc.binary_join(type(lists).from_arrays(lists.offsets, shown, mask=_mask(lists)), scalar(","))
    whole = join(["[", joined, "]"], len(texts))
    return pc.if_else(pc.equal(texts, "{}"), scalar("[]"), whole)


def _mask(lists: pa.Array) -> pa.Array | None:
    return pc.is_null(lists) if lists.null_count else None


def _without_braces(texts: Text) -> Text:
    offsets, data = text_parts(texts)
    given = pc.is_valid(texts).to_numpy(zero_copy_only=False)
    return slices(data, offsets[:-1] + given, offsets[1:] - given, given)


def _with_odd_arrays(texts: Text, odd: Ints, encode: Callable[[Text], Text], *, quoted: bool) -> Text:
    mask = np.zeros(len(texts), bool)
    mask[odd] = True
    common = arrays(pc.if_else(pa.array(mask), _NULL, texts), encode, quoted=quoted)
    return replace_rows(common, odd, _odd_arrays(texts.take(pa.array(odd)), encode, quoted=quoted))


def _odd_arrays(texts: Text, encode: Callable[[Text], Text], *, quoted: bool) -> list[str | None]:
    rows = [array_items(text) for text in texts.to_pylist()]
    flat = pa.array([item for row in rows for item in row], pa.large_string())
    shown = iter(encode(flat).to_pylist())
    return [_json_array(row, shown, quoted=quoted) for row in rows]


def _json_array(row: list[str | None], shown: Iterable[str | None], *, quoted: bool) -> str:
    items = []
    for _, item in zip(row, shown, strict=False):
        if item is None:
            items.append("null")
        else:
            items.append(f'"{item}"' if quoted else item)
    return "[" + ",".join(items) + "]"
