"""The content of a block in compressed pieces.

Events repeat themselves, and Spark's JVMs encrypt, write, read and ship each byte. Pieces are compressed as
they are written, so most blocks never need a file of the task's own:

    write ──► 1 MiB ──► LZ4 ──► memory, up to 8 MiB ──► a file of this machine

Owns the pieces and where they wait until the task ends.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECE: Final = 1 << 20
"""The size of a piece before it is compressed. The last one of a block is smaller."""
_IN_MEMORY: Final = 8 << 20
"""Compressed content that grows beyond it is written to the executor's disk."""
_CODEC: Final = "lz4_raw"


class Piece(NamedTuple):
    """A compressed piece; `size` is that of its content."""

    size: int
    packed: bytes

    def content(self) -> bytes:
        """The piece as it was written."""
        content: bytes = pa.decompress(self.packed, self.size, _CODEC, asbytes=True)
        return content


class Pieces:
    """The pieces of one block. Raises OSError if there is no room."""

    def __init__(self) -> None:
        directory = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=directory)  # noqa: SIM115  `release` closes it
        self._sizes: list[tuple[int, int]] = []
        self._begun = bytearray()

    def write(self, content: memoryview) -> None:
        """Append bytes."""
        while content.nbytes:
            if not self._begun and content.nbytes >= PIECE:
                self._pack(content[:PIECE])
                content = content[PIECE:]
                continue
            room = PIECE - len(self._begun)
            self._begun += content[:room]
            content = content[room:]
            if len(self._begun) == PIECE:
                self._pack_begun()

    def finish(self) -> None:
        """Nothing more is written."""
        if self._begun:
            self._pack_begun()
        self._file.flush()

    def _pack_begun(self) -> None:
        begun, self._begun = self._begun, bytearray()
        self._pack(memoryview(begun))

    def _pack(self, content: memoryview) -> None:
        packed = pa.compress(pa.py_buffer(content), _CODEC, asbytes=True)
        self._file.write(packed)
        self._sizes.append((content.nbytes, len(packed)))

    def __iter__(self) -> Iterator[Piece]:
        self._file.seek(0)
        return (Piece(size, self._file.read(packed)) for size, packed in self._sizes)

    def release(self) -> None:
        """Let memory and disk space go."""
        with suppress(OSError):  # closing writes what is buffered, for which there may be no room
            self._file.close()
