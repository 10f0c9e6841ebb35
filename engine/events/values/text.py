"""Text in bulk: cutting columns of text, converting their rows, and joining them with constant pieces.

Works on Arrow's large strings. Null stands for a missing value until `Field.pieces` or `fill` replaces it.
Independent of schemas, envelopes and databases.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Text: TypeAlias = pa.Array
"""A `large_string` array."""
Bytes: TypeAlias = npt.NDArray[np.uint8]
Ints: TypeAlias = npt.NDArray[np.int64]
Piece: TypeAlias = "str | Text"
"""A constant, or one text for each row."""


def scalar(text: str) -> pa.Scalar:
    """A constant of the large string type."""
    return pa.scalar(text, pa.large_string())


def text_parts(texts: Text) -> tuple[Ints, Bytes]:
    """The offsets (one more than rows) and the bytes that they index, without copying."""
    if pa.types.is_string(texts.type):
        texts = texts.cast(pa.large_string())
    _, offsets, data = texts.buffers()
    if len(texts) == 0:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    where = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return where, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)


def text_from(offsets: Ints, data: object, like: Text | None = None) -> Text:
    """Large strings over these buffers, null where `like` is."""
    rows = len(offsets) - 1
    valid = None
    if like is not None and like.null_count:
        valid = pc.is_valid(like).buffers()[1]
    offsets = np.ascontiguousarray(offsets)
    return pa.LargeStringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(data), valid)


def rows_of(data: Bytes, offsets: Ints, rows: Ints, length: int) -> Bytes:
    """The bytes of these rows, all of this length, as a matrix. `text_parts` gives `data` and `offsets`."""
    if len(rows) == len(offsets) - 1:
        whole: Bytes = data[offsets[0] : offsets[-1]].reshape(len(rows), length)
        return whole
    windows = np.lib.stride_tricks.sliding_window_view(data, length)
    chosen: Bytes = windows[offsets[rows]]
    return chosen


def slices(data: Bytes, begins: Ints, ends: Ints, given: npt.NDArray[np.bool_]) -> Text:
    """Large strings of the bytes from `begins` to `ends`, which ascend; null where not `given`.

    Interleaved, begins and ends are the offsets of an array in which every second element is a value. `take`
    then copies each value once.
    """
    rows = len(begins)
    if not given.any():
        return pa.nulls(rows, pa.large_string())
    offsets = np.empty(2 * rows, np.int64)
    offsets[0::2] = begins
    offsets[1::2] = ends
    spread = pa.LargeStringArray.from_buffers(2 * rows - 1, pa.py_buffer(offsets), pa.py_buffer(data))
    values = spread.take(pa.array(np.arange(0, 2 * rows - 1, 2)))
    if given.all():
        return values
    _, starts, used = values.buffers()
    valid = pa.py_buffer(np.packbits(given, bitorder="little"))
    return pa.LargeStringArray.from_buffers(rows, starts, used, valid)


def fill(texts: Text, missing: str) -> Text:
    """Replace null by `missing`."""
    return texts if texts.null_count == 0 else pc.fill_null(texts, scalar(missing))


def join(pieces: Iterable[Piece], rows: int) -> Text:
    """One text for each row: the pieces in order, adjacent constants merged. Null in, null out."""
    merged: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, str) and merged and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    if all(isinstance(piece, str) for piece in merged):
        return pa.repeat(scalar("".join(str(piece) for piece in merged)), rows)
    values = [
        scalar(piece) if isinstance(piece, str) else piece for piece in merged if len(piece) or rows == 0
    ]
    return pc.binary_join_element_wise(*values, scalar(""))


def replace_rows(texts: Text, rows: Ints, values: list[str | None]) -> Text:
    """`texts` with these rows (ascending) replaced: how a slow path returns its results."""
    if len(rows) == 0:
        return texts
    mask = np.zeros(len(texts), bool)
    mask[rows] = True
    return pc.replace_with_mask(texts, pa.array(mask), pa.array(values, pa.large_string()))


def each(texts: Text, convert: Callable[[str], str | None]) -> Text:
    """Apply `convert` to every value, one by one: for types too rare to vectorise."""
    return pa.array(
        [None if text is None else convert(text) for text in texts.to_pylist()], pa.large_string()
    )


def mostly(
    texts: Text,
    fast: Callable[[Text], Text],
    good: str,
    slow: Callable[[str], str | None],
    longest: int,
) -> Text:
    """Apply `fast` to the whole column; if it fails, apply `slow` to the rows that don't match `good`.

    `fast` raises `pa.ArrowInvalid` for a value that it can't handle. It is correct for all others of at most
    `longest` bytes, and must handle all that match `good`.
    """
    if (pc.max(pc.binary_length(texts)).as_py() or 0) <= longest:
        with contextlib.suppress(pa.ArrowInvalid):
            return fast(texts)
    fits = pc.fill_null(pc.match_substring_regex(texts, good), fill_value=True)
    rows = np.flatnonzero(~fits.to_numpy(zero_copy_only=False))
    odd = [slow(text) for text in texts.take(pa.array(rows)).to_pylist()]
    common = fast(pc.if_else(fits, texts, pa.scalar(None, pa.large_string())))
    return replace_rows(common, rows, odd)


def unchanged(texts: Text) -> Text:
    """The text as it is: it is JSON already."""
    return texts


def digits(numbers: pa.Array) -> Text:
    """Integers as text."""
    return pc.cast(numbers, pa.large_string())
