"""Writes values of one BSON type, of many documents at once, as strict extended JSON.

`begin` and `end` are the offsets of the values in `data`, one of each per document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from adapters.mongodb.documents.bson_walk import Kind
from adapters.mongodb.documents.extended_json import escaped
from engine.events.values.floats.java_floats import float_texts
from engine.events.values.text import Ints, Piece, Text, digits, replace_rows, slices, text_from

if TYPE_CHECKING:
    from collections.abc import Callable

Data = npt.NDArray[np.uint8]
_HEX = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], np.uint8)
_EXPONENT_BITS, _EXPONENT_BIAS, _SIGN = 49, 6176, -(2**63)
"""In the upper half of a decimal: where the exponent starts, and its bias."""


def gathered(data: Data, at: Ints, form: str) -> npt.NDArray[np.generic]:
    """The numbers (or bytes) of this format at these offsets, aligned or not."""
    dtype = np.dtype(form)
    everywhere = np.ndarray((max(0, len(data) - dtype.itemsize + 1),), dtype, data, 0, (1,))
    found: npt.NDArray[np.generic] = everywhere[at]
    return found


def int32s(data: Data, at: Ints) -> Ints:
    """The 32-bit integers at these offsets."""
    return gathered(data, at, "<i4").astype(np.int64)


def int64s(data: Data, at: Ints) -> Ints:
    """The 64-bit integers at these offsets."""
    return gathered(data, at, "<i8").astype(np.int64, copy=False)


def strings(data: Data, begin: Ints, end: Ints) -> list[Piece]:
    """Strings with their quotes."""
    return ['"', string_column(data, begin, end), '"']


def utf8_strings(data: Data, begin: Ints, end: Ints) -> list[Piece] | None:
    """Strings with their quotes; None if one is not UTF-8."""
    texts = _sliced(data, begin, end)
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return ['"', _inside(texts), '"']


def string_column(data: Data, begin: Ints, end: Ints) -> Text:
    """The insides of JSON strings, from BSON strings at these offsets. Invalid UTF-8 becomes U+FFFD."""
    return _inside(_sliced(data, begin, end))


def _sliced(data: Data, begin: Ints, end: Ints) -> Text:
    """The bytes of BSON strings as texts, not yet checked to be UTF-8."""
    return slices(data, begin + 4, end - 1, np.ones(len(begin), bool))


def _inside(texts: Text) -> Text:
    used = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    if len(used) == 0:
        return texts
    if used.min() < 0x20 or used.max() >= 0x7F:
        # As bytes: a text expression would skip invalid UTF-8.
        found = texts.view(pa.large_binary())
        odd = pc.match_substring_regex(found, r"[^\x20-\x7e]").to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(odd)
        strange = [text.decode(errors="replace") for text in found.take(pa.array(rows)).to_pylist()]
        plain = pc.if_else(pa.array(odd), pa.scalar("", pa.large_string()), texts)
        return replace_rows(_marked(plain), rows, [escaped(text) for text in strange])
    return _marked(texts)


def _marked(texts: Text) -> Text:
    """Quotes and backslashes escaped."""
    used = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    if (used == 0x5C).any():
        texts = pc.replace_substring(texts, "\\", "\\\\")
    return pc.replace_substring(texts, '"', '\\"') if (used == 0x22).any() else texts


def hex_column(data: Data, begin: Ints) -> Text:
    """The hexadecimal text of object ids."""
    shown = _HEX[gathered(data, begin, "V12").view(np.uint8)].reshape(len(begin), 24)
    return text_from(np.arange(0, 24 * len(begin) + 1, 24, dtype=np.int64), np.ascontiguousarray(shown))


def _doubles(data: Data, begin: Ints, _end: Ints) -> list[Piece]:
    return [float_texts(pa.array(int64s(data, begin).view(np.float64)))]


def _booleans(data: Data, begin: Ints, _end: Ints) -> list[Piece]:
    words = (pa.scalar(word, pa.large_string()) for word in ("true", "false"))
    return [pc.if_else(pa.array(data[begin] != 0), *words)]


def _decimals(data: Data, begin: Ints, _end: Ints) -> list[Piece] | None:
    """Decimals with the same exponent and up to 18 digits, such as prices; None for others."""
    low, high = int64s(data, begin), int64s(data, begin + 8)
    least = int(high[0] >> _EXPONENT_BITS) & 0x3FFF
    exponent = least - _EXPONENT_BIAS
    alike = ((high & ~_SIGN) == least << _EXPONENT_BITS) & (low >= 0) & (low < 10**18)
    if not -18 <= exponent <= 0 or not alike.all() or (low[high < 0] == 0).any():
        return None
    signed = np.where(high < 0, -low, low)
    words = np.column_stack([signed, signed >> 63]).astype("<i8")
    kind = pa.decimal128(38, -exponent)
    numbers = pa.Array.from_buffers(kind, len(words), [None, pa.py_buffer(np.ascontiguousarray(words))])
    return ['{"$numberDecimal": "', pc.cast(numbers, pa.large_string()), '"}']


COLUMNS: dict[int, Callable[[Data, Ints, Ints], list[Piece] | None]] = {
    Kind.INT32: lambda data, begin, _end: [digits(pa.array(int32s(data, begin)))],
    Kind.INT64: lambda data, begin, _end: ['{"$numberLong": "', digits(pa.array(int64s(data, begin))), '"}'],
    Kind.DATE: lambda data, begin, _end: ['{"$date": ', digits(pa.array(int64s(data, begin))), "}"],
    Kind.STRING: strings,
    Kind.OBJECT_ID: lambda data, begin, _end: ['{"$oid": "', hex_column(data, begin), '"}'],
    Kind.DOUBLE: _doubles,
    Kind.BOOLEAN: _booleans,
    Kind.NULL: lambda _data, _begin, _end: ["null"],
    Kind.DECIMAL128: _decimals,
}
"""Writers by type. They return None for irregular values. Other types are written one by one."""
