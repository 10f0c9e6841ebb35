r"""Escapes characters beyond the BMP as two surrogates, `\uD83D\uDE00`, as Jackson does when writing bytes.

Kafka Connect's converter writes bytes, and Kafka's partitioner hashes the bytes of a key. So this form
decides which partition a record goes to. To a reader of JSON it is the same text.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

LEAST_FIRST = 0xF0
"""The least first byte of such a character in UTF-8."""
_LONG, _UNIT = 4, 6
"""The bytes of such a character, and of the escape of one surrogate."""
_GROWTH = 2 * _UNIT - _LONG
_HIGH, _LOW, _FIRST = 0xD7C0, 0xDC00, 0xD800
_UNITS = np.array([f"\\u{unit:04X}" for unit in range(_FIRST, 0xE000)], f"S{_UNIT}").view(f"V{_UNIT}")
_PIECE = 1 << 18
"""The most characters processed at once, to bound memory."""


def with_pairs(offsets: Ints, data: Bytes) -> tuple[Ints, Bytes]:
    """The offsets and bytes of texts with such characters escaped. At least one must occur."""
    used = data[offsets[0] : offsets[-1]]
    firsts = np.flatnonzero(used >= LEAST_FIRST)
    relative = offsets - offsets[0]
    moved = relative + _GROWTH * np.searchsorted(firsts, relative)
    cuts = [*firsts[::_PIECE].tolist(), len(used)]
    pieces = [
        _paired(used[cuts[at] : cuts[at + 1]], firsts[at * _PIECE : (at + 1) * _PIECE] - cuts[at])
        for at in range(len(cuts) - 1)
    ]
    return moved, np.concatenate([used[: cuts[0]], *pieces])


def _paired(used: Bytes, firsts: Ints) -> Bytes:
    """The bytes with the characters that begin at `firsts` escaped."""
    words = _anywhere(used, ">u4")[firsts].astype(np.int32)
    codes = (words >> 24 & 7) << 18 | (words >> 16 & 63) << 12 | (words >> 8 & 63) << 6 | words & 63
    out = np.empty(len(used) + _GROWTH * len(firsts), np.uint8)
    begun, escapes = firsts + _GROWTH * np.arange(len(firsts)), _anywhere(out, f"V{_UNIT}")
    escapes[begun] = _UNITS[_HIGH - _FIRST + (codes >> 10)]
    escapes[begun + _UNIT] = _UNITS[_LOW - _FIRST + (codes & 0x3FF)]
    kept, plain = np.ones(len(out), bool), np.ones(len(used), bool)
    _anywhere(kept, f"V{2 * _UNIT}")[begun] = bytes(2 * _UNIT)
    _anywhere(plain, f"V{_LONG}")[firsts] = bytes(_LONG)
    out[kept] = used[plain]
    return out


def _anywhere(data: npt.NDArray[np.generic], form: str) -> npt.NDArray[np.generic]:
    """A view with the value of this format that begins at each byte."""
    size = np.dtype(form).itemsize
    return np.ndarray((len(data) - size + 1,), form, data, 0, (1,))
