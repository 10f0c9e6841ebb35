"""Writes what Java's ObjectOutputStream writes for the few objects that Debezium stores."""

from __future__ import annotations

import struct

HEAD = b"\xac\xed\x00\x05"
NULL_KEY = bytes.fromhex("aced000570")
ONE_AND_TWO = bytes.fromhex(
    "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c020000787000000002"
    "7372000e6a6176612e6c616e672e4c6f6e673b8be490cc8f23df0200014a000576616c7565"
    "787200106a6176612e6c616e672e4e756d62657286ac951d0b94e08b0200007870"
    "00000000000000017371007e00020000000000000002"
)
"""What Java writes for `new Object[]{1L, 2L}`."""
_BYTES = b"\x72\x00\x02[B\xac\xf3\x17\xf8\x06\x08\x54\xe0\x02\x00\x00\x78\x70"
_MAP = (
    b"\x73\x72\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16\x60\xd1\x03\x00\x02"
    b"F\x00\x0aloadFactorI\x00\x09threshold\x78\x70\x3f\x40\x00\x00\x00\x00\x00\x0c"
)


def text_key(*values: str) -> bytes:
    """An Object[] of strings."""
    kind = b"\x72\x00\x13[Ljava.lang.Object;\x90\xce\x58\x9f\x10\x73\x29\x6c\x02\x00\x00\x78\x70"
    items = b"".join(b"\x74" + struct.pack(">H", len(value)) + value.encode() for value in values)
    return HEAD + b"\x75" + kind + struct.pack(">i", len(values)) + items


def byte_map(entries: dict[bytes, bytes | None]) -> bytes:
    """A HashMap<byte[], byte[]>; the class of arrays is described once."""
    out, described = _MAP + b"\x77\x08" + struct.pack(">ii", 16, len(entries)), False
    for value in (part for entry in entries.items() for part in entry):
        if value is None:
            out += b"\x70"
            continue
        out += b"\x75" + (b"\x71\x00\x7e\x00\x02" if described else _BYTES)
        out += struct.pack(">i", len(value)) + value
        described = True
    return HEAD + out + b"\x78"
