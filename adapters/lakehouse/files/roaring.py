"""Positions of rows as a Roaring bitmap of 32 bits, in its portable format. Pure.

A bitmap has a container for each 65,536 positions: the low halves of up to 4,096, a bit for each position, or
runs, which are read and never written.

Source: https://github.com/RoaringBitmap/RoaringFormatSpec
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.errors import SinkError

if TYPE_CHECKING:
    from collections.abc import Iterator

Positions: TypeAlias = npt.NDArray[np.int64]
"""Rows of a file, in order, each once."""

NONE: Final[Positions] = np.empty(0, np.int64)
_PLAIN: Final = 12346
_WITH_RUNS: Final = 12347
_MOST_LISTED: Final = 4096
_BITMAP_BYTES: Final = 8192
_FEW_WITHOUT_OFFSETS: Final = 4
_LOW: Final = 0xFFFF


def bitmap_of(positions: Positions) -> bytes:
    """The bitmap of these positions, each below 2³²."""
    highs, begins = np.unique(positions >> 16, return_index=True)
    lows = np.split((positions & _LOW).astype("<u2"), begins[1:])
    contents = [_content(part) for part in lows] if len(positions) else []
    heads = np.array([(high, len(part) - 1) for high, part in zip(highs, lows, strict=False)], "<u2")
    begin = 8 + 8 * len(contents)
    offsets = begin + np.cumsum([0, *map(len, contents)])[:-1]
    head = np.array([_PLAIN, len(contents)], "<u4").tobytes() + heads.tobytes()
    return b"".join([head, offsets.astype("<u4").tobytes(), *contents])


def _content(lows: npt.NDArray[np.uint16]) -> bytes:
    if len(lows) <= _MOST_LISTED:
        return lows.tobytes()
    bits = np.zeros(1 << 16, np.bool_)
    bits[lows] = True
    return np.packbits(bits, bitorder="little").tobytes()


def positions_in(bitmap: bytes) -> Positions:
    """The positions of a bitmap. Raises SinkError if it is none."""
    try:
        parts = list(_containers(bitmap))
    except (ValueError, IndexError) as error:
        raise SinkError(f"a bitmap of deleted rows can't be read: {error}") from error
    return np.concatenate([NONE, *parts])


def _containers(bitmap: bytes) -> Iterator[Positions]:
    cookie = int(np.frombuffer(bitmap, "<u4", 1)[0])
    if cookie & _LOW == _WITH_RUNS:
        count, at = (cookie >> 16) + 1, 4
        flag_bytes = (count + 7) // 8
        runs = np.unpackbits(np.frombuffer(bitmap, np.uint8, flag_bytes, at), bitorder="little")[:count]
        at += flag_bytes
        has_offsets = count >= _FEW_WITHOUT_OFFSETS
    elif cookie == _PLAIN:
        count, at, has_offsets = int(np.frombuffer(bitmap, "<u4", 1, 4)[0]), 8, True
        runs = np.zeros(count, np.uint8)
    else:
        raise ValueError(f"no cookie of a bitmap: {cookie}")
    heads = np.frombuffer(bitmap, "<u2", 2 * count, at).astype(np.int64)
    at += 4 * count + (4 * count if has_offsets else 0)
    for number in range(count):
        high, size = int(heads[2 * number]) << 16, int(heads[2 * number + 1]) + 1
        if runs[number]:
            lows, at = _runs(bitmap, at)
        elif size <= _MOST_LISTED:
            lows, at = np.frombuffer(bitmap, "<u2", size, at).astype(np.int64), at + 2 * size
        else:
            bits = np.unpackbits(np.frombuffer(bitmap, np.uint8, _BITMAP_BYTES, at), bitorder="little")
            lows, at = np.flatnonzero(bits), at + _BITMAP_BYTES
        yield high + lows


def _runs(bitmap: bytes, at: int) -> tuple[Positions, int]:
    """The low halves of a container of runs: each begins at the first, and has so many more."""
    count = int(np.frombuffer(bitmap, "<u2", 1, at)[0])
    runs = np.frombuffer(bitmap, "<u2", 2 * count, at + 2).astype(np.int64).reshape(count, 2)
    lows = [np.arange(begin, begin + more + 1) for begin, more in runs.tolist()]
    return np.concatenate([NONE, *lows]), at + 2 + 4 * count
