"""A document's `_id` as the engine's key: text that the server's order and equality agree with.

Numbers are the same text where the server takes them for equal, since a replacement may turn an `_id`
of 1 into 1.0 while the change stream calls it 1. All else is relaxed extended JSON, which reads back
as the same value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson import json_util
from bson.binary import UuidRepresentation
from bson.codec_options import DatetimeConversion

from adapters.mongodb.extended import KEY, value_text
from adapters.mongodb.raw import elements

if TYPE_CHECKING:
    from engine.model import Key

_OPTIONS = json_util.JSONOptions(
    datetime_conversion=DatetimeConversion.DATETIME_MS,
    uuid_representation=UuidRepresentation.UNSPECIFIED,
    tz_aware=False,
)


def key_text(raw: bytes, kind: int, start: int, end: int) -> str:
    """The key of the value that stands there."""
    return value_text(raw, kind, start, end, KEY)


def id_text(raw: bytes, start: int = 0) -> str | None:
    """The key of the document at `start`, whose `_id` comes first wherever the server stores it."""
    for name, kind, begin, end in elements(raw, start):
        if name == b"_id":
            return value_text(raw, kind, begin, end, KEY)
    return None


def key_value(key: Key) -> Any:
    """The value of a key, to be compared by the server."""
    (text,) = key
    return json_util.loads(text or "null", json_options=_OPTIONS)
