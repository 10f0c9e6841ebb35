"""Staged blocks in memory, for tests and simulations: everything that opens them runs in this process."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from engine.staging.checksum import checksum_of
from engine.staging.damage import damaged, gone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.model import Checksum

_CONTENT: dict[str, bytes] = {}
"""What blocks hold, by name: a handle names its block and holds nothing else, so it pickles."""


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """The name of a block with its checksum."""

    name: str
    checksum: Checksum

    @contextmanager
    def open(self, what: str) -> Iterator[pa.Buffer]:
        """The content."""
        if self.name not in _CONTENT:
            raise gone(what, self.name)
        content = _CONTENT[self.name]
        if checksum_of(content) != self.checksum:
            raise damaged(what, "its checksum is wrong", self.name)
        yield pa.py_buffer(content)

    def file(self, what: str) -> None:
        """None: there are no files."""

    def blanked(self, what: str, gaps: Sequence[tuple[int, int]]) -> None:
        """None: there are no files."""

    def remove(self) -> None:
        """Forget the content."""
        _CONTENT.pop(self.name, None)


@dataclass(frozen=True, slots=True)
class MemoryBlocks:
    """Blocks whose names begin alike."""

    name: str = field(default_factory=lambda: uuid4().hex)

    def within(self, name: str) -> MemoryBlocks:
        """Blocks with a longer beginning."""
        return MemoryBlocks(f"{self.name}/{name}")

    def create(self, name: str) -> _MemoryWriter:
        """Begin a block."""
        return _MemoryWriter(f"{self.name}/{name}")

    def create_file(self, name: str, mode: int | None) -> _MemoryWriter:  # noqa: ARG002  there are no files
        """Begin a block."""
        return self.create(name)

    def clear(self) -> None:
        """Forget them all."""
        for name in [name for name in _CONTENT if name.startswith(f"{self.name}/")]:
            _CONTENT.pop(name, None)


class _MemoryWriter:
    """A block that is being written."""

    def __init__(self, name: str) -> None:
        self._name, self._pieces, self.closed = name, list[bytes](), False

    def write(self, data: bytes | memoryview) -> int:
        self._pieces.append(bytes(data))
        return len(self._pieces[-1])

    def flush(self) -> None:
        pass

    def finish(self) -> MemoryBlock:
        self.closed, content = True, b"".join(self._pieces)
        _CONTENT[self._name] = content
        return MemoryBlock(self._name, checksum_of(content))

    def abandon(self) -> None:
        self.closed = True
