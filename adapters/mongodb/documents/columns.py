"""Writes many documents as strict extended JSON at once, column by column where they have the same shape.

Documents of a collection mostly have the same fields, in the same order and of the same types. These are
walked together, with a cursor in each, and Arrow joins their values. Everything rarer (another shape, an
array of another length, an old type) is written value by value by `extended_json`. Both ways give exactly the
same text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from adapters.mongodb.documents.bson_walk import FIXED_SIZES, OVERHEADS, Kind, int32
from adapters.mongodb.documents.extended_json import STRICT, document_text, quoted, value_text
from adapters.mongodb.documents.values import COLUMNS, gathered, hex_column, int32s, int64s, utf8_strings
from engine.events.values.json_strings import escape
from engine.events.values.json_text import quote
from engine.events.values.text import Ints, Piece, Text, digits, join

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adapters.mongodb.documents.values import Data
    from engine.events.record.field import Mask

_WORTHWHILE = 32
"""Fewer documents of one shape are written one by one."""
_SHAPES = 8
"""The most shapes that are tried in one batch."""
_WORD = 8
"""How many bytes are compared at once."""


class _ShapesDiffer(Exception):
    """The values walked together differ in shape."""


@dataclass(frozen=True, slots=True)
class Ids:
    """Where the `_id` of each document is: its type, the value's start and end."""

    kind: int
    starts: Ints
    ends: Ints


@dataclass(frozen=True, slots=True)
class Written:
    """Documents of one shape: their indexes in the batch, the pieces of their JSON, and their ids."""

    rows: Ints
    pieces: list[Piece]
    ids: Ids | None

    @property
    def texts(self) -> Text:
        """The JSON."""
        return join(self.pieces, len(self.rows))

    def embedded(self) -> list[Piece]:
        """The JSON's pieces, escaped for a JSON string."""
        return [quote(piece)[1:-1] if isinstance(piece, str) else escape(piece) for piece in self.pieces]


@dataclass(frozen=True, slots=True)
class _Field:
    """A field that many documents have at the same position: its header, and the values' offsets."""

    header: bytes
    begin: Ints
    end: Ints

    def of(self, chosen: Mask) -> _Field:
        """The field in some of the documents."""
        return _Field(self.header, self.begin[chosen], self.end[chosen])


def written(raw: bytes, starts: Ints) -> tuple[list[Written], list[int]]:
    """The documents at these offsets (ascending): those of common shapes, and the indexes of the others."""
    raw = _padded(raw, starts)
    data = np.frombuffer(raw, np.uint8)
    left, found = np.arange(len(starts)), list[Written]()
    while len(left) >= _WORTHWHILE and len(found) < _SHAPES:
        try:
            alike, fields = _alike(raw, data, starts[left])
            rows = left[alike]
            if len(rows) < _WORTHWHILE:
                break
            walk = _Walk(raw, data)
            found.append(Written(rows, walk.document(fields), walk.ids))
        except _ShapesDiffer:
            break
        left = left[~alike]
    return found, left.tolist()


def _padded(raw: bytes, starts: Ints) -> bytes:
    """The bytes, padded after the last document so that whole words can be compared."""
    if len(starts) == 0:
        return raw
    last = int(starts[-1])
    return raw if last + int32(raw, last)[0] + _WORD <= len(raw) else raw + bytes(_WORD)


def _alike(raw: bytes, data: Data, starts: Ints) -> tuple[Mask, list[_Field]]:
    """Which documents have the same fields as the first, by name and type; and those fields."""
    at, same, fields = starts + 4, np.ones(len(starts), bool), list[_Field]()
    while True:
        header = _header(raw, int(at[0]))
        same &= _begins(data, at, header)
        if header == b"\0":
            return same, fields if same.all() else [field.of(same) for field in fields]
        begin = at + len(header)
        at = np.where(same, _value_ends(data, header[0], begin, same), at)
        fields.append(_Field(header, begin, at))


def _header(raw: bytes, at: int) -> bytes:
    """The type and name of the element at `at`, or the document's end."""
    return raw[at : at + 1] if raw[at] == 0 else raw[at : raw.index(0, at + 1) + 1]


def _begins(data: Data, at: Ints, header: bytes) -> Mask:
    """Which documents have the header at their offset.

    Where they do, the words compared lie within `data`.
    """
    same = np.ones(len(at), bool)
    for first in range(0, len(header), _WORD):
        part = header[first : first + _WORD]
        words = gathered(data, np.minimum(at + first, len(data) - _WORD), "<u8").view(np.uint64)
        wanted, bits = np.uint64(int.from_bytes(part, "little")), np.uint64((1 << 8 * len(part)) - 1)
        same &= (words & bits) == wanted
    return same


def _value_ends(data: Data, kind: int, at: Ints, sure: Mask) -> Ints:
    """Where values of this type end that start at `at`. Undefined for documents that are not `sure`.

    Raises _Unlike for a type whose end can only be found by searching.
    """
    size, overhead = FIXED_SIZES[kind], OVERHEADS[kind]
    if size is not None:
        return at + size
    if overhead is None:
        raise _ShapesDiffer
    begin = np.where(sure, at, at[0])
    return begin + int32s(data, begin) + overhead


@dataclass(slots=True)
class _Walk:
    """A cursor in each of several documents that begin alike. Raises _Unlike where they diverge."""

    raw: bytes
    data: Data
    ids: Ids | None = None

    def document(self, fields: Iterable[_Field]) -> list[Piece]:
        """The pieces of the documents' JSON."""
        pieces, names = list[Piece](["{"]), set[bytes]()
        for field in fields:
            self._add(pieces, names, field, array=False)
            if field.header[1:-1] == b"_id":
                self.ids = Ids(field.header[0], field.begin, field.end)
        return [*pieces, "}"]

    def _inner(self, starts: Ints, *, array: bool) -> list[Piece]:
        """The pieces of embedded documents or arrays."""
        pieces, names, at = list[Piece](["[" if array else "{"]), set[bytes](), starts + 4
        while True:
            header = _header(self.raw, int(at[0]))
            if not _begins(self.data, at, header).all():
                raise _ShapesDiffer
            if header == b"\0":
                return [*pieces, "]" if array else "}"]
            begin = at + len(header)
            at = _value_ends(self.data, header[0], begin, np.ones(len(begin), bool))
            self._add(pieces, names, _Field(header, begin, at), array=array)

    def _add(self, pieces: list[Piece], names: set[bytes], field: _Field, *, array: bool) -> None:
        name = field.header[1:-1]
        if name in names:
            raise _ShapesDiffer
        comma = "," if names else ""
        pieces.append(comma if array else f"{comma}{quoted(name.decode(errors='replace'))}: ")
        pieces += self._values(field.header[0], field.begin, field.end)
        names.add(name)

    def _values(self, kind: int, begin: Ints, end: Ints) -> list[Piece]:
        if kind in {Kind.DOCUMENT, Kind.ARRAY}:
            try:
                return self._inner(begin, array=kind == Kind.ARRAY)
            except _ShapesDiffer:
                return [_one_by_one(self.raw, kind, begin, end)]
        write = COLUMNS.get(kind)
        written_together = write(self.data, begin, end) if write else None
        return written_together or [_one_by_one(self.raw, kind, begin, end)]


def _one_by_one(raw: bytes, kind: int, begin: Ints, end: Ints) -> Text:
    places = zip(begin.tolist(), end.tolist(), strict=True)
    return pa.array([value_text(raw, kind, start, stop, STRICT) for start, stop in places], pa.large_string())


def id_columns(raw: bytes, ids: Ids) -> Text | None:
    """The relaxed text of ids whose key has the same text; None for other types."""
    data = np.frombuffer(raw, np.uint8)
    match ids.kind:
        case Kind.INT32:
            return digits(pa.array(int32s(data, ids.starts)))
        case Kind.INT64:
            return digits(pa.array(int64s(data, ids.starts)))
        case Kind.STRING:
            pieces = utf8_strings(data, ids.starts, ids.ends)
            return None if pieces is None else join(pieces, len(ids.starts))
        case Kind.OBJECT_ID:
            return join(['{"$oid": "', hex_column(data, ids.starts), '"}'], len(ids.starts))
    return None


def document_texts(raw: bytes, starts: Ints) -> list[str]:
    """The JSON of every document at these offsets (ascending), in order."""
    found, others = written(raw, starts)
    texts = [""] * len(starts)
    for shape in found:
        for row, text in zip(shape.rows.tolist(), shape.texts.to_pylist(), strict=True):
            texts[row] = text
    for row in others:
        texts[row] = document_text(raw, int(starts[row]), STRICT)
    return texts
