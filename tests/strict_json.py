"""Documents of strict extended JSON, as `after` holds them, back into BSON: by the driver's own reader.

Knows nothing of the engine: what an event says is equal to what the database holds if both are the same
bytes.
"""

from __future__ import annotations

from typing import Any

import bson
from bson import json_util
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, DatetimeConversion

CODEC: CodecOptions[dict[str, Any]] = CodecOptions(
    uuid_representation=UuidRepresentation.UNSPECIFIED,
    datetime_conversion=DatetimeConversion.DATETIME_MS,
    unicode_decode_error_handler="replace",
)
_OPTIONS = json_util.JSONOptions(
    datetime_conversion=DatetimeConversion.DATETIME_MS,
    uuid_representation=UuidRepresentation.UNSPECIFIED,
    tz_aware=False,
)


def value_of(text: str) -> Any:
    """The value that a text stands for: of strict JSON, or of the relaxed form of keys."""
    return json_util.loads(text, json_options=_OPTIONS)


def bson_of(text: str) -> bytes:
    """The document that a text stands for."""
    return bson.encode(value_of(text), codec_options=CODEC)
