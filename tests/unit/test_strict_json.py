"""Strict extended JSON read back is the document it was written from."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import bson
import pytest
from bson.binary import Binary
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

from adapters.mongodb.documents.extended_json import STRICT, document_text
from tests.strict_json import bson_of

VALUES: tuple[tuple[Any, ...], ...] = (
    (None, True, 1, Int64(1), 1.0, 1e300, float("nan"), float("-inf"), Decimal128("1.50")),
    ("", 'ä"\\\n\x1f🌊', b"\x00\xff", Binary(bytes(16), 4), ObjectId(bytes(12)), Timestamp(7, 8)),
    (datetime(1969, 1, 1, tzinfo=UTC), MaxKey(), Regex("a/b", "i"), {}, {"b": [1, {"c": None}]}, []),
)


@pytest.mark.parametrize("values", VALUES)
def test_every_type_comes_back_byte_for_byte(values: tuple[Any, ...]):
    document = bson.encode({"_id": 1, **{f"f{at}": value for at, value in enumerate(values)}})

    assert bson_of(document_text(document, 0, STRICT)) == document
