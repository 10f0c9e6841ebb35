"""Numbers: a database's text to the JSON that Kafka Connect's converter writes.

Decimals become the base64 of their unscaled value in two's complement, as Java's `BigInteger` gives it.
`java_floats` writes floats. Columns go through Arrow casts and numpy. Values with more than 38 digits, and
values that no decimal can hold, take a slow path, row by row.
"""

from __future__ import annotations

import base64
from decimal import Decimal
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.events.values.text import Bytes, Ints, Text, each, join, mostly, text_from

_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_SPECIAL_NAMES = {"NaN": "NAN", "Infinity": "POSITIVE_INFINITY", "-Infinity": "NEGATIVE_INFINITY"}
_WORDS = 38
"""The most digits of a 128-bit decimal."""
_FEW_DIGITS = 4_000


def decimal_base64(texts: Text, scale: int) -> Text:
    """Decimal text as base64 of the unscaled value at `scale`; NaN and infinities become null."""
    if not 0 <= scale <= _WORDS:
        return each(texts, partial(_decimal_slow, scale=scale))
    whole = _WORDS - scale
    good = rf"^-?[0-9]{{0,{whole}}}(\.[0-9]{{0,{scale}}})?$"
    return mostly(
        texts, partial(_decimal_fast, scale=scale), good, partial(_decimal_slow, scale=scale), _WORDS
    )


def variable_decimals(texts: Text) -> Text:
    """`{"scale":s,"value":base64}` without trailing zeros of the fraction; NaN becomes null."""
    return mostly(texts, _variable_fast, r"^-?[0-9.]{1,38}$", _variable_slow, _WORDS)


def unscaled_base64(number: int) -> str:
    """Base64 of one integer in the fewest bytes of two's complement."""
    size = (number + (number < 0)).bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def special_names(texts: Text) -> Text:
    """Decimal text unchanged, but NaN and infinities by Java's names."""
    if not pc.any(pc.match_substring_regex(texts, "[a-zA-Z]")).as_py():
        return texts
    return each(texts, lambda text: _SPECIAL_NAMES.get(text, text))


def _decimal_fast(texts: Text, scale: int) -> Text:
    return _decimals_as_base64(pc.cast(texts, pa.decimal128(_WORDS, scale)))


def _decimal_slow(text: str, scale: int) -> str | None:
    if text.lstrip("-")[:1] in {"N", "I"}:
        return None
    whole, _, fraction = text.partition(".")
    digits = _integer(whole + fraction)
    shift = scale - len(fraction)
    if shift >= 0:
        return unscaled_base64(digits * 10**shift)
    half = 5 * 10 ** (-shift - 1)
    rounded = (abs(digits) + half) // 10**-shift
    return unscaled_base64(-rounded if digits < 0 else rounded)


def _variable_slow(text: str) -> str | None:
    if text.lstrip("-")[:1] in {"N", "I"}:
        return None
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    return f'{{"scale":{len(fraction)},"value":"{unscaled_base64(_integer(whole + fraction))}"}}'


def _integer(text: str) -> int:
    """An integer of any length: `int` takes 4,300 digits at most, PostgreSQL's numeric has up to 147,455."""
    return int(text) if len(text) <= _FEW_DIGITS else int(Decimal(text))


def _variable_fast(texts: Text) -> Text:
    trimmed = texts
    pointed = pc.match_substring(texts, ".")
    if pc.any(pointed).as_py():
        trimmed = pc.if_else(pointed, pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), "."), texts)
    whole_digits = pc.find_substring(trimmed, ".")
    length = pc.binary_length(trimmed)
    scale = pc.if_else(pc.less(whole_digits, 0), 0, pc.subtract(pc.subtract(length, whole_digits), 1))
    unscaled = pc.cast(pc.replace_substring(trimmed, ".", "", max_replacements=1), pa.decimal128(_WORDS, 0))
    scales = pc.cast(pc.cast(scale, pa.int64()), pa.large_string())
    return join(['{"scale":', scales, ',"value":"', _decimals_as_base64(unscaled), '"}'], len(texts))


def _decimals_as_base64(numbers: pa.Array) -> Text:
    rows = len(numbers)
    words = np.frombuffer(numbers.buffers()[1], np.int64)[2 * numbers.offset : 2 * (numbers.offset + rows)]
    low, high = words[0::2], words[1::2]
    valid = (
        np.ones(rows, bool)
        if numbers.null_count == 0
        else pc.is_valid(numbers).to_numpy(zero_copy_only=False)
    )
    if np.array_equal(high[valid], low[valid] >> 63):
        chars, sizes = _narrow(np.where(valid, low, 0))
    else:
        chars, sizes = _wide(np.where(valid, low, 0), np.where(valid, high, 0))
    lengths = np.where(valid, 4 * ((sizes + 2) // 3), 0)
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return text_from(offsets, chars[np.arange(chars.shape[1]) < lengths[:, None]], numbers)


def _narrow(values: Ints) -> tuple[Bytes, Ints]:
    """Base64 characters, padded to the widest row, and the bytes of each number: 64 bits at most."""
    magnitude = values ^ (values >> 63)
    sizes = np.ones(len(values), np.int64)
    widest = int(magnitude.max(initial=0))
    for byte in range(1, 8):
        if widest >> (8 * byte - 1):
            sizes += magnitude >> (8 * byte - 1) > 0
    left = values.astype(np.uint64) << (64 - 8 * sizes).astype(np.uint64)
    used = (8 * sizes + 5) // 6
    width = 4 * ((int(sizes.max(initial=1)) + 2) // 3)
    chars = np.full((len(values), width), ord("="), np.uint8)
    for place in range(min(width, 11)):
        sextet = left >> np.uint64(58 - 6 * place) if place < 10 else left << np.uint64(2)
        chars[:, place] = np.where(place < used, _BASE64[sextet & np.uint64(63)], ord("="))
    return chars, sizes


def _wide(low: Ints, high: Ints) -> tuple[Bytes, Ints]:
    """As `_narrow`, for 128 bits."""
    rows = len(low)
    raw = np.empty((rows, 34), np.uint8)
    raw[:, 0:8] = high.astype(">i8").view(np.uint8).reshape(rows, 8)
    raw[:, 8:16] = low.astype(">i8").view(np.uint8).reshape(rows, 8)
    raw[:, 16:] = 0
    sign = np.where(high < 0, 0xFF, 0).astype(np.uint8)
    sizes = np.full(rows, 16, np.int64)
    redundant = np.ones(rows, bool)
    for byte in range(15):
        redundant &= (raw[:, byte] == sign) & ((raw[:, byte + 1] ^ sign) < 0x80)
        sizes -= redundant
    left = np.take_along_axis(raw, (16 - sizes)[:, None] + np.arange(18), axis=1)
    chars = base64_chars(left.reshape(-1)).reshape(rows, 24)
    chars[np.arange(24) >= ((8 * sizes + 5) // 6)[:, None]] = ord("=")
    return chars, sizes


def base64_chars(data: Bytes) -> npt.NDArray[np.uint8]:
    """Base64 of bytes whose count is a multiple of three, without padding."""
    groups = data.reshape(-1, 3)
    first, second, third = groups[:, 0], groups[:, 1], groups[:, 2]
    chars = np.empty((len(groups), 4), np.uint8)
    chars[:, 0] = first >> 2
    chars[:, 1] = (first & 3) << 4 | second >> 4
    chars[:, 2] = (second & 15) << 2 | third >> 6
    chars[:, 3] = third & 63
    return _BASE64[chars].reshape(-1)
