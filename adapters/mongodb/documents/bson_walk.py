"""Walks raw BSON without decoding it: finds where the values of a document are.

Owns the sizes of BSON's types (bsonspec.org, version 1.1), not their meaning. The bytes come from the server,
which has checked them. Bytes that violate the format raise SourceError, IndexError or ValueError; `decode`
turns all into SourceError.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

ClusterTime: TypeAlias = tuple[int, int]
"""Seconds and ordinal."""


class Kind(IntEnum):
    """The type byte before an element."""

    DOUBLE = 0x01
    STRING = 0x02
    DOCUMENT = 0x03
    ARRAY = 0x04
    BINARY = 0x05
    UNDEFINED = 0x06
    OBJECT_ID = 0x07
    BOOLEAN = 0x08
    DATE = 0x09
    NULL = 0x0A
    REGEX = 0x0B
    DB_POINTER = 0x0C
    CODE = 0x0D
    SYMBOL = 0x0E
    CODE_WITH_SCOPE = 0x0F
    INT32 = 0x10
    TIMESTAMP = 0x11
    INT64 = 0x12
    DECIMAL128 = 0x13
    MAX_KEY = 0x7F
    MIN_KEY = 0xFF


class Value(NamedTuple):
    """A value's type and its bytes `[start, end)` in its document."""

    kind: int
    start: int
    end: int


_HINT = "read it again"
_SHORTEST = 5
"""The size of a document without fields."""
int32 = Struct("<i").unpack_from
int64 = Struct("<q").unpack_from
double = Struct("<d").unpack_from
_FIXED = {
    Kind.DOUBLE: 8,
    Kind.UNDEFINED: 0,
    Kind.OBJECT_ID: 12,
    Kind.BOOLEAN: 1,
    Kind.DATE: 8,
    Kind.NULL: 0,
    Kind.INT32: 4,
    Kind.TIMESTAMP: 8,
    Kind.INT64: 8,
    Kind.DECIMAL128: 16,
    Kind.MAX_KEY: 0,
    Kind.MIN_KEY: 0,
}
_OVERHEAD = {
    Kind.STRING: 4,
    Kind.CODE: 4,
    Kind.SYMBOL: 4,
    Kind.BINARY: 5,
    Kind.DB_POINTER: 16,
    Kind.DOCUMENT: 0,
    Kind.ARRAY: 0,
    Kind.CODE_WITH_SCOPE: 0,
}
"""Bytes beyond the length at the beginning of a value."""
FIXED_SIZES: list[int | None] = [None] * 256
OVERHEADS: list[int | None] = [None] * 256
for _kind, _size in _FIXED.items():
    FIXED_SIZES[_kind] = _size
for _kind, _size in _OVERHEAD.items():
    OVERHEADS[_kind] = _size


def elements(raw: bytes, start: int = 0) -> Iterator[tuple[bytes, int, int, int]]:
    """The elements of the document at `start`, in order: name, type, and the value's start and end."""
    at = start + 4
    find = raw.index
    while kind := raw[at]:
        stop = find(0, at + 1)
        begin = stop + 1
        size = FIXED_SIZES[kind]
        end = begin + size if size is not None else _variable_end(raw, kind, begin)
        yield raw[at + 1 : stop], kind, begin, end
        at = end


def _variable_end(raw: bytes, kind: int, begin: int) -> int:
    overhead = OVERHEADS[kind]
    if overhead is not None:
        length: int = int32(raw, begin)[0]
        if length < 0:
            raise _damaged()
        return begin + length + overhead
    if kind == Kind.REGEX:
        return raw.index(0, raw.index(0, begin) + 1) + 1
    raise SourceError(f"no BSON type {kind:#04x}", hint=_HINT)


def _damaged() -> SourceError:
    return SourceError("a document is damaged: a length in it is wrong", hint=_HINT)


def _length(raw: bytes, at: int) -> int:
    """The length that the document at this offset declares."""
    if at + _SHORTEST > len(raw):
        raise _damaged()
    length: int = int32(raw, at)[0]
    if length < _SHORTEST:
        raise _damaged()
    return length


def fields(raw: bytes, start: int = 0) -> dict[str, Value]:
    """The values of the document at `start` by name. Of a repeated name, the last counts."""
    return {
        name.decode(errors="replace"): Value(kind, begin, end)
        for name, kind, begin, end in elements(raw, start)
    }


def documents(raw: bytes, start: int = 0) -> Iterator[tuple[int, int]]:
    """The start and end of each document in the array at `start`."""
    for _name, _kind, begin, end in elements(raw, start):
        yield begin, end


def document_starts(raw: bytes, start: int) -> list[int]:
    """The start of each document in the array at `start`. Their names are their indexes."""
    at, end = start + 4, start + _length(raw, start) - 1
    digits, longer, found = 1, 10, list[int]()
    while at < end:
        at += digits + 2  # type, index and terminator
        found.append(at)
        at += _length(raw, at)
        if len(found) == longer:
            digits, longer = digits + 1, longer * 10
    return found


def concatenated(raw: bytes) -> list[int]:
    """The offsets of consecutive documents, including the end of the last."""
    offsets, at, end = [0], 0, len(raw)
    while at < end:
        at += _length(raw, at)
        offsets.append(at)
    return offsets


def is_utf8(raw: bytes, start: int = 0, end: int | None = None) -> bool:
    """Whether these bytes are UTF-8. The server accepts other text, too."""
    try:
        raw[start:end].decode()
    except UnicodeDecodeError:
        return False
    return True


def string(raw: bytes, start: int) -> str:
    """The string at `start`. Invalid UTF-8 becomes U+FFFD, as in Java."""
    length: int = int32(raw, start)[0]
    return raw[start + 4 : start + 3 + length].decode(errors="replace")


def cluster_time(raw: bytes, start: int) -> ClusterTime:
    """The timestamp at `start`: seconds and ordinal."""
    number: int = int64(raw, start)[0]
    return number >> 32 & 0xFFFFFFFF, number & 0xFFFFFFFF
