"""Documents with a field of every type that ExtractNewDocumentState knows, and what it must make of them.

What it makes is worked out here from the documents that `find` gives, with nothing of ours.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from bson.binary import Binary, UuidRepresentation
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId

FIELDS: tuple[dict[str, Any], ...] = (
    {
        "int": 1,
        "long": Int64(2**40),
        "double": 1e23,
        "whole": 2.0,
        "small": 5e-324,
        "text": 'é \x01\t😀\u2028"\\',
        "flag": True,
        "at": datetime(2023, 3, 15, 12, 34, 56, 789000, UTC),
        "oid": ObjectId("63fe2a3b8d2f0e1a2b3c4d5e"),
        "decimal": Decimal128("12.50"),
        "octets": b"\x01\x02\xff",
        "uuid": Binary.from_uuid(UUID("123e4567-e89b-12d3-a456-426614174000"), UuidRepresentation.STANDARD),
        "none": None,
        "numbers": [1, 2],
        "texts": ["a", "😀"],
        "nested": {"a": "x", "b": {"c": 2.5}},
    },
    {"int": -(2**31), "double": 6.602055686667299e17, "text": "", "flag": False, "numbers": []},
    {"double": 1e7, "whole": 9999999.0, "nested": {"a": "y"}},
)
IDS: tuple[Any, ...] = (1, Int64(2**40), 1.5, "k😀", ObjectId("63fe2a3b8d2f0e1a2b3c4d5f"), Decimal128("2.50"))
"""A document's id of each of these types."""


def documents() -> list[dict[str, Any]]:
    """Every row of fields under an id of its own, and a document of ids of every type."""
    rows = [{"_id": number, **fields} for number, fields in enumerate(FIELDS, 100)]
    return rows + [{"_id": value, "int": place} for place, value in enumerate(IDS)]


def shown(value: Any) -> Any:  # noqa: PLR0911  a type a line
    """A value as `Consumer.java` shows what ExtractNewDocumentState has made of it."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            return struct.pack(">d", value).hex()
        case datetime():
            return str(round(value.replace(tzinfo=UTC).timestamp() * 1000))
        case bytes():
            return value.hex()
        case list():
            return [shown(item) for item in value]
        case dict():
            return {name: shown(item) for name, item in value.items()}
        case _:
            return str(value)
