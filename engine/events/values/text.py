r"""JSON text in bulk: escaping, quoting, and joining columns of text with constant pieces.

Works on Arrow's large strings. Null stands for a missing value until `Field.pieces` or `fill` replaces it.
The text is what Java's Jackson writes as bytes, and so what Kafka Connect's converter sends: no blanks,
control characters as `\b \t \n \f \r` or `\u001B`, characters beyond the BMP as two surrogates
`\uD83D\uDE00`, all others as they are. Independent of schemas, envelopes and databases.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.events.values.surrogates import LEAST_FIRST, pair, with_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Text: TypeAlias = pa.Array
"""A `large_string` array."""
Bytes: TypeAlias = npt.NDArray[np.uint8]
Ints: TypeAlias = npt.NDArray[np.int64]
Piece: TypeAlias = "str | Text"
"""A constant, or one text for each row."""

_SHORT = {0x08: "b", 0x09: "t", 0x0A: "n", 0x0C: "f", 0x0D: "r", 0x22: '"', 0x5C: "\\"}


def _escape_table() -> list[str]:
    table = [f"\\u{code:04X}" for code in range(0x20)] + [chr(code) for code in range(0x20, 0x80)]
    for code, letter in _SHORT.items():
        table[code] = "\\" + letter
    return table


_ESCAPES = _escape_table()
_GROWTH = np.zeros(256, np.uint8)
_GROWTH[:0x80] = [len(text) - 1 for text in _ESCAPES]
_LARGE, _PIECE = 32 << 20, 1 << 20
_SIX = np.array([list(text.encode().ljust(6, b" ")) for text in _ESCAPES], np.uint8)


def quote(text: str) -> str:
    """One JSON string with its quotes."""
    return '"' + "".join(map(_escaped_character, text)) + '"'


def quote_unpaired(text: str) -> str:
    """As `quote`, but without surrogates: what Jackson writes into a Java string instead of bytes."""
    return '"' + "".join(_ESCAPES[ord(c)] if ord(c) < 0x80 else c for c in text) + '"'


def _escaped_character(character: str) -> str:
    code = ord(character)
    return _ESCAPES[code] if code < 0x80 else character if code < 0x10000 else pair(code)


def json_text(value: object) -> str:
    """A value as JSON text: objects, lists, strings, integers and constants."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{quote(name)}:{json_text(member)}" for name, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    return "null" if value is None else str(value).lower()


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


def escape(texts: Text) -> Text:
    """The inside of a JSON string; null stays null. One pass over the bytes, no loop per row."""
    offsets, data = text_parts(texts)
    used = data[offsets[0] : offsets[-1]]
    if len(used) == 0:
        return texts
    escaped = _escape_specials(texts, offsets, used)
    if used.max() < LEAST_FIRST:
        return escaped
    return text_from(*with_pairs(*text_parts(escaped)), escaped)


def _escape_specials(texts: Text, offsets: Ints, used: Bytes) -> Text:
    """Quotes, backslashes and control characters."""
    if len(used) > _LARGE:
        return _escape_one_by_one(texts, used)
    quotes, slashes = used == 0x22, used == 0x5C
    if used.min() >= 0x20:
        if slashes.any():
            texts = pc.replace_substring(texts, "\\", "\\\\")
        return pc.replace_substring(texts, '"', '\\"') if quotes.any() else texts
    marks = np.flatnonzero((used < 0x20) | quotes | slashes)
    return text_from(_moved(offsets, marks, used), _escaped(used, marks), texts)


def _escape_one_by_one(texts: Text, used: Bytes) -> Text:
    """One pass per special character that occurs. Takes twice the text's memory instead of forty times."""
    pieces = (used[at : at + _PIECE] for at in range(0, len(used), _PIECE))
    found = {int(code) for piece in pieces for code in np.unique(piece)}
    specials = sorted((code for code in found if _GROWTH[code]), reverse=True)
    # The backslash has the greatest code, so it comes first: the other escapes are not escaped again.
    for code in specials:
        texts = pc.replace_substring(texts, chr(code), _ESCAPES[code])
    return texts


def _moved(offsets: Ints, marks: Ints, used: Bytes) -> Ints:
    grown = np.concatenate([[0], np.cumsum(_GROWTH[used[marks]], dtype=np.int64)])
    relative = offsets - offsets[0]
    moved: Ints = relative + grown[np.searchsorted(marks, relative)]
    return moved


def _escaped(used: Bytes, marks: Ints) -> Bytes:
    specials = used[marks]
    growth = _GROWTH[specials].astype(np.int64)
    ends = marks + np.cumsum(growth)
    starts = ends - growth
    keep = np.ones(len(used) + int(growth.sum()), bool)
    out = np.empty(len(keep), np.uint8)
    for width in (2, 6):
        chosen = growth == width - 1
        places = starts[chosen][:, None] + np.arange(width)
        out[places] = _SIX[specials[chosen], :width]
        keep[places] = False
    plain = np.ones(len(used), bool)
    plain[marks] = False
    out[keep] = used[plain]
    return out


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
