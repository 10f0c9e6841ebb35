"""A document's `_id` as the engine's key: text that agrees with the server's order and equality.

Numbers that the server treats as equal get the same text: a replacement may turn an `_id` of 1 into 1.0 while
the change stream still says 1. Most other values are relaxed extended JSON. A value that JSON can't restore
exactly (invalid UTF-8, a DBPointer, a repeated name) is the base64 of its BSON after a prefix that no JSON
begins with. Equal values have equal bytes there, too.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from struct import pack
from typing import TYPE_CHECKING, Any

import bson
from bson import json_util
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.raw_bson import RawBSONDocument

from adapters.mongodb.documents.bson_walk import Kind, elements, fields, is_utf8
from adapters.mongodb.documents.extended_json import KEY, value_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.model import Key

_OPTIONS = json_util.JSONOptions(
    datetime_conversion=DatetimeConversion.DATETIME_MS,
    uuid_representation=UuidRepresentation.UNSPECIFIED,
    tz_aware=False,
)
_CODEC: CodecOptions[Any] = CodecOptions(
    datetime_conversion=DatetimeConversion.DATETIME_MS, uuid_representation=UuidRepresentation.UNSPECIFIED
)
BY_ID = {"_id": 1}
"""The index that windows read by."""
NOTHING_BETWEEN = 51175
_BSON = "bson:"
_NUMBERS = frozenset({Kind.DOUBLE, Kind.INT32, Kind.INT64, Kind.DECIMAL128})
_TEXTS = frozenset({Kind.STRING, Kind.SYMBOL, Kind.CODE})
_NESTS = frozenset({Kind.DOCUMENT, Kind.ARRAY})
_READ_BACK = _NUMBERS | {
    Kind.OBJECT_ID,
    Kind.BOOLEAN,
    Kind.DATE,
    Kind.NULL,
    Kind.TIMESTAMP,
    Kind.MAX_KEY,
    Kind.MIN_KEY,
}
_NEVER_IDS = frozenset({Kind.ARRAY, Kind.REGEX, Kind.UNDEFINED})
_OLD_BINARY = 2
"""A subtype that repeats its length, which may be wrong."""


def key_text(raw: bytes, kind: int, start: int, end: int) -> str:
    """The key of the value at these offsets."""
    if _reads_back(raw, kind, start, end):
        return value_text(raw, kind, start, end, KEY)
    type_, value = _value(raw, kind, start, end)
    return _BSON + b64encode(_document([_named(b"", type_, value)])).decode()


def id_text(raw: bytes, start: int = 0) -> str | None:
    """The key of the document at `start`. The server always stores `_id` first."""
    for name, kind, begin, end in elements(raw, start):
        if name == b"_id":
            return key_text(raw, kind, begin, end)
    return None


def key_value(key: Key) -> Any:
    """The value of a key, for the server to compare.

    A key in BSON gives a document that holds it under ''.
    """
    (text,) = key
    if text is not None and text.startswith(_BSON):
        return RawBSONDocument(b64decode(text[len(_BSON) :]))
    return json_util.loads(text or "null", json_options=_OPTIONS)


def between(after: Key | None, upto: Key | None, *, holds_after: bool = False) -> dict[str, Any]:
    """The parts of a find command that reads `(after, upto)` in index order; `after`, too, if asked for.

    A query's comparisons stay within one type, and those of aggregation disagree with the index about
    documents that repeat a name. So the command gives the index a `min` and a `max`; the index stops before
    `max`. If that leaves nothing, the server answers with NOTHING_BETWEEN.
    """
    found: dict[str, Any] = {"hint": BY_ID}
    if after is not None:
        found["min"] = RawBSONDocument(_document([_element(after, b"_id")]))
        if not holds_after:
            found["filter"] = _listed(b"$nin", [after])
    if upto is not None:
        found["max"] = RawBSONDocument(_document([_element(upto, b"_id")]))
    return found


def key_from_json(text: str) -> Key:
    """The key of an `_id` that a signal gives in extended JSON. Raises ValueError for what is no `_id`."""
    try:
        raw = bson.encode({"": json_util.loads(text, json_options=_OPTIONS)}, codec_options=_CODEC)
        value = fields(raw)[""]
    except Exception as error:
        # Untrusted input: numbers that BSON lacks, names with NUL, values that no type takes.
        raise ValueError(type(error).__name__) from error
    if value.kind in _NEVER_IDS:
        raise ValueError("an _id can't be an array, a regular expression or undefined")
    return (key_text(raw, value.kind, value.start, value.end),)


def ranked(keys: Sequence[Key]) -> list[dict[str, Any]]:
    """The stages of an aggregation that ranks keys as the collection orders its `_id`s.

    It needs a document to begin with, and returns one for each key: its place among `keys`, and its rank.
    """
    listed = _document([_element(key, str(at).encode()) for at, key in enumerate(keys)])
    given = RawBSONDocument(_document([_named(b"$literal", Kind.ARRAY, listed)]))
    return [
        {"$limit": 1},
        {"$project": {"_id": 0, "key": given}},
        {"$unwind": {"path": "$key", "includeArrayIndex": "at"}},
        {"$setWindowFields": {"sortBy": {"key": 1}, "output": {"rank": {"$denseRank": {}}}}},
        {"$project": {"at": 1, "rank": 1}},
        {"$sort": {"at": 1}},
    ]


def among(keys: Sequence[Key]) -> dict[str, Any]:
    """The filter of the documents under these keys."""
    return _listed(b"$in", keys)


def _listed(operator: bytes, keys: Sequence[Key]) -> dict[str, Any]:
    array = _document([_element(key, str(at).encode()) for at, key in enumerate(keys)])
    return {"_id": RawBSONDocument(_document([_named(operator, Kind.ARRAY, array)]))}


def _element(key: Key, name: bytes) -> bytes:
    """The key's value as an element of a document."""
    value = key_value(key)
    exact = isinstance(value, RawBSONDocument)
    raw = bytes(value.raw) if exact else bson.encode({"": value}, codec_options=_CODEC)
    found = fields(raw)[""]
    return _named(name, found.kind, raw[found.start : found.end])


# Values that JSON can't restore.


def _reads_back(raw: bytes, kind: int, start: int, end: int) -> bool:
    if kind in _NESTS:
        return _all_read_back(raw, start)
    if kind in _TEXTS:
        return is_utf8(raw, start + 4, end - 1)
    if kind == Kind.BINARY:
        return raw[start + 4] != _OLD_BINARY
    return kind in _READ_BACK


def _all_read_back(raw: bytes, start: int) -> bool:
    names = set[bytes]()
    for name, inner, begin, stop in elements(raw, start):
        if name in names or name.startswith(b"$") or not is_utf8(name):
            return False
        if not _reads_back(raw, inner, begin, stop):
            return False
        names.add(name)
    return True


def _value(raw: bytes, kind: int, start: int, end: int) -> tuple[int, bytes]:
    """The type and bytes of a value, the same for equal values."""
    if kind in _NUMBERS:
        number = _element((value_text(raw, kind, start, end, KEY),), b"")
        return number[0], number[2:]
    if kind == Kind.SYMBOL:
        return Kind.STRING, raw[start:end]
    if kind in _NESTS:
        inner = elements(raw, start)
        return kind, _document([_named(name, *_value(raw, *value)) for name, *value in inner])
    return kind, raw[start:end]


def _named(name: bytes, kind: int, value: bytes) -> bytes:
    """An element of a document."""
    return bytes([kind]) + name + b"\0" + value


def _document(named: Sequence[bytes]) -> bytes:
    body = b"".join(named)
    return pack("<i", len(body) + 5) + body + b"\0"
