"""NaN and the infinities among typed decimals, which hold numbers only.

A record has null in their place, as Debezium's have. Typed values carry marks, which no number can equal, so
that sinks of tables can tell them from null:

| Arrow type | mark |
|---|---|
| `decimal128`, `decimal256` | an unscaled value beyond the digits of the type: its highest word decides |
| `large_binary`, `value` of VariableScaleDecimal | bytes that are no number's: one has the fewest it needs |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from engine.events.values.text import Text

_NAMES: Final = ("NaN", "Infinity", "-Infinity")
_WORDS: Final = (2**63 - 1, 2**63 - 2, -(2**63))
"""The highest words. Those of 10**38 in 128 bits and of 10**76 in 256 are smaller."""
_BYTES: Final = (b"", b"\x00\x00", b"\xff\xff")
_MOST_BYTES: Final = 2


def with_specials(values: pa.Array, texts: Text) -> pa.Array:
    """Decimals with marks where these texts of them have a special name and they are null."""
    for place, name in enumerate(_NAMES):
        there = pc.and_(pc.is_null(values), pc.fill_null(pc.equal(texts, name), fill_value=False))
        if pc.any(there).as_py():
            values = pc.if_else(there, _mark(place, values.type), values)
    return values


def _mark(place: int, kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_decimal(kind):
        words = np.zeros(kind.byte_width // 8, np.int64)
        words[-1] = _WORDS[place]
        return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(words)])[0]
    if pa.types.is_struct(kind):
        return pa.scalar({"scale": 0, "value": _BYTES[place]}, kind)
    return pa.scalar(_BYTES[place], kind)


def special_texts(values: pa.Array) -> pa.Array | None:
    """The names of those that are marks, null elsewhere; None if there are none."""
    if pa.types.is_decimal(values.type):
        marks = [_highest(values) == word for word in _WORDS]
    else:
        raw = pc.struct_field(values, "value") if pa.types.is_struct(values.type) else values
        short = pc.less_equal(pc.binary_length(raw), _MOST_BYTES)
        if not pc.any(short).as_py():
            return None
        marks = [
            pc.fill_null(pc.equal(raw, pa.scalar(data, raw.type)), fill_value=False).to_numpy(
                zero_copy_only=False
            )
            for data in _BYTES
        ]
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    if not any((mark & valid).any() for mark in marks):
        return None
    found = np.full(len(values), None, object)
    for name, mark in zip(_NAMES, marks, strict=True):
        found[mark & valid] = name
    return pa.array(found, pa.string())


def _highest(values: pa.Array) -> npt.NDArray[np.int64]:
    width = values.type.byte_width // 8
    words = np.frombuffer(values.buffers()[1], np.int64)
    return words[width - 1 :: width][values.offset : values.offset + len(values)]
