"""Values that MongoDB takes as an `_id` and Python's BSON has no value for, as their bytes.

The server compares strings by their bytes, whatever these are; takes types that are no longer in use; and
stores documents with a name in them twice.
"""

from __future__ import annotations

from struct import pack

from bson.raw_bson import RawBSONDocument

Raw = tuple[int, bytes]
"""A type, and the value's bytes."""


def text(content: bytes) -> bytes:
    """The bytes of a string."""
    return pack("<i", len(content) + 1) + content + b"\0"


def nested(*fields: tuple[bytes, Raw]) -> bytes:
    """The bytes of a document of these fields, in order."""
    body = b"".join(bytes([kind]) + name + b"\0" + value for name, (kind, value) in fields)
    return pack("<i", len(body) + 5) + body + b"\0"


def int32(number: int) -> Raw:
    """A whole number."""
    return 0x10, pack("<i", number)


def double(number: float) -> Raw:
    """A number in floating point."""
    return 0x01, pack("<d", number)


def invalid(content: bytes) -> Raw:
    """A string of any bytes."""
    return 0x02, text(content)


def document(of: Raw, **more: Raw) -> RawBSONDocument:
    """A document under this `_id`."""
    return RawBSONDocument(nested((b"_id", of), *((name.encode(), value) for name, value in more.items())))


ODD: dict[str, Raw] = {
    "not UTF-8": invalid(b"a\xff"),
    "overlong": invalid(b"a\xc0\x80"),
    "a surrogate": invalid(b"\xed\xa0\x80"),
    "another surrogate": invalid(b"\xed\xa0\x81"),
    "DBPointer": (0x0C, text(b"shop.t") + b"\x01" * 12),
    "another DBPointer": (0x0C, text(b"shop.t") + b"\x02" * 12),
    "DBRef": (0x03, nested((b"$ref", invalid(b"shop.t")), (b"$id", int32(1)))),
    "symbol": (0x0E, text(b"symbol")),
    "symbol not UTF-8": (0x0E, text(b"b\xff")),
    "code": (0x0D, text(b"f()")),
    "code with scope": (0x0F, pack("<i", 4 + 8 + 5) + text(b"f()") + nested()),
    "old binary": (0x05, pack("<i", 7) + b"\x02" + pack("<i", 3) + b"abc"),
    "old binary of a wrong length": (0x05, pack("<i", 7) + b"\x02" + pack("<i", 9) + b"abc"),
    "a name twice": (0x03, nested((b"a", int32(1)), (b"a", int32(2)))),
    "a name twice, otherwise": (0x03, nested((b"a", int32(3)), (b"a", int32(2)))),
    "a name not UTF-8": (0x03, nested((b"\xff", int32(1)))),
    "undefined within": (0x03, nested((b"a", (0x06, b"")))),
    "null within": (0x03, nested((b"a", (0x0A, b"")))),
    "an expression within": (0x03, nested((b"a", (0x0B, b"a\0i\0")))),
    "an array within": (0x03, nested((b"a", (0x04, nested((b"0", invalid(b"\xfe"))))))),
    "a dot in a name": (0x03, nested((b"a.b", int32(1)))),
    "no name": (0x03, nested((b"", int32(1)))),
    "a decimal of no number": (0x13, b"\xff" * 16),
    "NaN of odd bits": (0x01, b"\x01\0\0\0\0\0\xf8\x7f"),
}
"""By what is odd about them."""
