"""Deletion vectors of Delta Lake: which rows of a data file are gone, in files of their own.

Source: PROTOCOL.md of Delta Lake, "Deletion Vector Format" and "Deletion Vector Descriptor Schema".
"""

from __future__ import annotations

import struct
import uuid
import zlib
from typing import TYPE_CHECKING, Any, Final

from adapters.lakehouse.files.roaring import NONE, bitmap_of, positions_in
from engine.errors import SinkError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from adapters.lakehouse.files.roaring import Positions

_VERSION: Final = b"\x01"
_MAGIC: Final = 1681511377
_IN_TABLE: Final = "u"
_UUID_LETTERS: Final = 20
_HEAD: Final = struct.Struct("<iqi")
"""The magic number, how many bitmaps of 32 bits there are, and the high half of the first one's positions."""
_LETTERS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
"""Those of Z85 (https://rfc.zeromq.org/spec/32)."""


def write_vectors(directory: Path, gone: Sequence[Positions]) -> tuple[Path, list[dict[str, Any]]]:
    """Write a file of vectors. Returns it, and the descriptor of each vector in it."""
    name = uuid.uuid4()
    path = directory / f"deletion_vector_{name}.bin"
    described, content = [], [_VERSION]
    offset = len(_VERSION)
    for positions in gone:
        vector = _HEAD.pack(_MAGIC, 1, 0) + bitmap_of(positions)
        framed = struct.pack(">i", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
        described.append(
            {
                "storageType": _IN_TABLE,
                "pathOrInlineDv": z85(name.bytes),
                "offset": offset,
                "sizeInBytes": len(vector),
                "cardinality": len(positions),
            }
        )
        content.append(framed)
        offset += len(framed)
    path.write_bytes(b"".join(content))
    return path, described


def read_vector(table: Path, descriptor: Mapping[str, Any]) -> Positions | None:
    """The positions in a vector; None if it is not in a file of the table's directory.

    Raises SinkError if its content is not what was written.
    """
    if descriptor["storageType"] != _IN_TABLE:
        return None
    place, size = descriptor["pathOrInlineDv"], descriptor["sizeInBytes"]
    prefix, name = place[:-_UUID_LETTERS], uuid.UUID(bytes=from_z85(place[-_UUID_LETTERS:]))
    path = table / prefix / f"deletion_vector_{name}.bin"
    with path.open("rb") as file:
        file.seek(descriptor.get("offset") or 0)
        framed = file.read(size + 8)
    vector = framed[4:-4]
    if framed != struct.pack(">i", size) + vector + struct.pack(">I", zlib.crc32(vector)):
        raise SinkError("a deletion vector is damaged", where=str(path))
    magic, count, high = _HEAD.unpack_from(vector) if size >= _HEAD.size else (_MAGIC, 0, 0)
    if magic != _MAGIC or count > 1 or high:
        return None
    return positions_in(vector[_HEAD.size :]) if count else NONE


def z85(content: bytes) -> str:
    """Bytes, four at a time, as five letters each."""
    letters = []
    for (number,) in struct.iter_unpack(">I", content):
        letters += [_LETTERS[number // 85**power % 85] for power in range(4, -1, -1)]
    return "".join(letters)


def from_z85(text: str) -> bytes:
    """The same back."""
    numbers = []
    for begin in range(0, len(text), 5):
        number = 0
        for letter in text[begin : begin + 5]:
            number = number * 85 + _LETTERS.index(letter)
        numbers.append(number)
    return struct.pack(f">{len(numbers)}I", *numbers)
