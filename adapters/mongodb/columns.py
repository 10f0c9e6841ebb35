"""Many documents to strict extended JSON at once: where they have one shape, column by column.

Documents of a collection mostly have the same fields, in the same order and of the same types. Such ones
are walked together, a cursor for each, and Arrow joins their values; what is rarer (another shape, an
array of another length, an old type) is written value by value as `extended` does. Both give the same
text, letter for letter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from adapters.mongodb.doubles import java_double
from adapters.mongodb.extended import STRICT, document_text, escaped, quoted, value_text
from adapters.mongodb.raw import FIXED_SIZES, OVERHEADS, Kind
from engine.events.text import Ints, Piece, Text, digits, join, replace_rows, slices, text_from

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.events.field import Mask

_WORTHWHILE = 32
"""Documents of one shape; fewer are written one by one."""
_SHAPES = 8
"""Shapes that are looked for in one batch."""
_HEX = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], np.uint8)
_LEAST, _MOST = 1e-3, 1e7
"""Doubles between which Java writes the fewest digits, without an exponent."""


class _Unlike(Exception):
    """The values walked together have not one shape."""


@dataclass(frozen=True, slots=True)
class Ids:
    """Where the `_id` of each document stands: its type, the value's start and end."""

    kind: int
    starts: Ints
    ends: Ints


@dataclass(frozen=True, slots=True)
class Written:
    """Documents of one shape: their numbers in the batch, their JSON, and their ids."""

    rows: Ints
    texts: Text
    ids: Ids | None


def written(raw: bytes, starts: Ints) -> tuple[list[Written], list[int]]:
    """The documents at these places, ascending: those of common shapes, and the numbers of the others."""
    data = np.frombuffer(raw, np.uint8)
    left, found = np.arange(len(starts)), list[Written]()
    while len(left) >= _WORTHWHILE and len(found) < _SHAPES:
        try:
            alike, rest = _alike(raw, data, starts, left)
            if len(alike) < _WORTHWHILE:
                break
            walk = _Walk(raw, data, starts[alike])
            found.append(Written(alike, join(walk.document(), len(alike)), walk.ids))
        except _Unlike:
            break
        left = rest
    return found, left.tolist()


def _alike(raw: bytes, data: npt.NDArray[np.uint8], starts: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """The rows whose fields are those of the first one, by name and type; and the others."""
    at, same = starts[rows] + 4, np.ones(len(rows), bool)
    while True:
        header = _header(raw, int(at[0]))
        same &= _begins(data, at, header)
        if header == b"\0":
            return rows[same], rows[~same]
        at = np.where(same, _value_ends(data, header[0], at + len(header), same), at)


def _header(raw: bytes, at: int) -> bytes:
    """The type and the name of the element there, or the document's end."""
    return raw[at : at + 1] if raw[at] == 0 else raw[at : raw.index(0, at + 1) + 1]


def _begins(data: npt.NDArray[np.uint8], at: Ints, header: bytes) -> Mask:
    places = np.minimum(at[:, None] + np.arange(len(header)), len(data) - 1)
    found: Mask = (data[places] == np.frombuffer(header, np.uint8)).all(axis=1)
    return found


def _value_ends(data: npt.NDArray[np.uint8], kind: int, at: Ints, sure: Mask) -> Ints:
    """Where the values of this type end that begin there; where not `sure`, anything.

    Raises _Unlike for a type whose end would have to be looked for.
    """
    size, overhead = FIXED_SIZES[kind], OVERHEADS[kind]
    if size is not None:
        return at + size
    if overhead is None:
        raise _Unlike
    begin = np.where(sure, at, at[0])
    return begin + _int32(data, begin) + overhead


def _int32(data: npt.NDArray[np.uint8], at: Ints) -> Ints:
    gathered = data[at[:, None] + np.arange(4)]
    numbers: Ints = gathered.view("<i4").reshape(-1).astype(np.int64)
    return numbers


def _int64(data: npt.NDArray[np.uint8], at: Ints) -> Ints:
    gathered = data[at[:, None] + np.arange(8)]
    numbers: Ints = gathered.view("<i8").reshape(-1)
    return numbers


@dataclass(slots=True)
class _Walk:
    """A cursor in each of some documents that begin alike; raises _Unlike where they part ways."""

    raw: bytes
    data: npt.NDArray[np.uint8]
    starts: Ints
    ids: Ids | None = None

    def document(self) -> list[Piece]:
        """The pieces of the documents' JSON."""
        return self._elements(self.starts, array=False, top=True)

    def _elements(self, starts: Ints, *, array: bool, top: bool = False) -> list[Piece]:
        pieces: list[Piece] = ["[" if array else "{"]
        at, names = starts + 4, set[bytes]()
        while True:
            header = _header(self.raw, int(at[0]))
            if not _begins(self.data, at, header).all():
                raise _Unlike
            if header == b"\0":
                return [*pieces, "]" if array else "}"]
            kind, name = header[0], header[1:-1]
            if name in names:
                raise _Unlike
            begin = at + len(header)
            at = _value_ends(self.data, kind, begin, np.ones(len(begin), bool))
            comma = "," if names else ""
            pieces.append(comma if array else f"{comma}{quoted(name.decode(errors='replace'))}: ")
            pieces += self._values(kind, begin, at)
            if top and name == b"_id":
                self.ids = Ids(kind, begin, at)
            names.add(name)

    def _values(self, kind: int, begin: Ints, end: Ints) -> list[Piece]:
        if kind in {Kind.DOCUMENT, Kind.ARRAY}:
            try:
                return self._elements(begin, array=kind == Kind.ARRAY)
            except _Unlike:
                return [_one_by_one(self.raw, kind, begin, end)]
        write = _COLUMNS.get(kind)
        return write(self.data, begin, end) if write else [_one_by_one(self.raw, kind, begin, end)]


def _one_by_one(raw: bytes, kind: int, begin: Ints, end: Ints) -> Text:
    places = zip(begin.tolist(), end.tolist(), strict=True)
    return pa.array([value_text(raw, kind, start, stop, STRICT) for start, stop in places], pa.large_string())


# Columns of one type.

Data = npt.NDArray[np.uint8]


def _strings(data: Data, begin: Ints, end: Ints) -> list[Piece]:
    return ['"', string_column(data, begin, end), '"']


def string_column(data: Data, begin: Ints, end: Ints) -> Text:
    """The inside of JSON strings, of BSON strings between these places."""
    texts = slices(data, begin + 4, end - 1, np.ones(len(begin), bool))
    used = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    if len(used) == 0:
        return texts
    if used.min() < 0x20 or used.max() >= 0x7F:
        odd = pc.match_substring_regex(texts, r"[^\x20-\x7e]").to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(odd)
        strange = texts.take(pa.array(rows)).to_pylist()
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
    shown = _HEX[data[begin[:, None] + np.arange(12)]].reshape(len(begin), 24)
    return text_from(np.arange(0, 24 * len(begin) + 1, 24, dtype=np.int64), np.ascontiguousarray(shown))


def _doubles(data: Data, begin: Ints, _end: Ints) -> list[Piece]:
    values = _int64(data, begin).view(np.float64)
    sizes = np.abs(values)
    plain = (sizes >= _LEAST) & (sizes < _MOST)
    texts = pc.cast(pa.array(np.where(plain, values, 1.5)), pa.large_string())
    pointed = pc.match_substring(texts, ".")
    if not pc.all(pointed, min_count=0).as_py():
        texts = pc.if_else(pointed, texts, join([texts, ".0"], len(texts)))
    rows = np.flatnonzero(~plain)
    return [replace_rows(texts, rows, [_double(value) for value in values[rows].tolist()])]


def _double(value: float) -> str:
    if value - value == 0:
        return java_double(value)
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"  # noqa: PLR0124


def _booleans(data: Data, begin: Ints, _end: Ints) -> list[Piece]:
    words = (pa.scalar(word, pa.large_string()) for word in ("true", "false"))
    return [pc.if_else(pa.array(data[begin] != 0), *words)]


_COLUMNS: dict[int, Callable[[Data, Ints, Ints], list[Piece]]] = {
    Kind.INT32: lambda data, begin, _end: [digits(pa.array(_int32(data, begin)))],
    Kind.INT64: lambda data, begin, _end: ['{"$numberLong": "', digits(pa.array(_int64(data, begin))), '"}'],
    Kind.DATE: lambda data, begin, _end: ['{"$date": ', digits(pa.array(_int64(data, begin))), "}"],
    Kind.STRING: _strings,
    Kind.OBJECT_ID: lambda data, begin, _end: ['{"$oid": "', hex_column(data, begin), '"}'],
    Kind.DOUBLE: _doubles,
    Kind.BOOLEAN: _booleans,
    Kind.NULL: lambda _data, _begin, _end: ["null"],
}


def id_columns(raw: bytes, ids: Ids) -> Text | None:
    """The relaxed text of ids whose key is that text too; None for other types."""
    data = np.frombuffer(raw, np.uint8)
    match ids.kind:
        case Kind.INT32:
            return digits(pa.array(_int32(data, ids.starts)))
        case Kind.INT64:
            return digits(pa.array(_int64(data, ids.starts)))
        case Kind.STRING:
            return join(_strings(data, ids.starts, ids.ends), len(ids.starts))
        case Kind.OBJECT_ID:
            return join(['{"$oid": "', hex_column(data, ids.starts), '"}'], len(ids.starts))
    return None


def document_texts(raw: bytes, starts: Ints) -> list[str]:
    """The JSON of every document at these places, ascending, in order."""
    found, others = written(raw, starts)
    texts = [""] * len(starts)
    for one in found:
        for row, text in zip(one.rows.tolist(), one.texts.to_pylist(), strict=True):
            texts[row] = text
    for row in others:
        texts[row] = document_text(raw, int(starts[row]), STRICT)
    return texts
