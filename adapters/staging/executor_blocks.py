"""Staged blocks that need no shared disk: they stay on the executors, and Spark ships them.

A task hands the blocks that it writes to an `Outbox`, whose content goes out with the task's result; what
keeps them is Spark's affair (`adapters/spark/kept_blocks.py`). Blocks that the driver writes, and small ones
of tasks, stay in the driver's memory. A handle is the block's name, so it says nothing of the place:

    process     a block's content
    ─────────   ──────────────────────────────────────────────────────────────────────────
    driver      in memory, or fetched from where it is kept
    executor    what came with the task; a task is given exactly the blocks that it opens

Owns the names and what this process knows of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Final, Protocol
from uuid import uuid4

import pyarrow as pa
from xxhash import xxh3_64

from adapters.staging.pieces import Pieces
from engine.errors import InvariantError
from engine.model import Checksum
from engine.staging.checksum import checksum_of
from engine.staging.damage import damaged_error, gone_error
from engine.staging.files import sink_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_SMALL: Final = 256 << 10
"""A block of at most this size goes to the driver with the task's result, up to `_SMALL_IN_ALL` per task."""
_SMALL_IN_ALL: Final = 1 << 20


class BlockLocation(Protocol):
    """Where a block is kept. Only the driver knows locations."""

    def fetch(self, name: str) -> bytes | None:
        """The block's content; None if it is lost."""

    def release(self, name: str) -> None:
        """The block is not needed any more."""


_CONTENT: dict[str, bytes | memoryview] = {}
"""The blocks whose content is in this process."""
_PLACES: dict[str, BlockLocation] = {}
"""In the driver: where the other blocks are kept."""


@dataclass(frozen=True, slots=True)
class ExecutorBlock:
    """The name of a block with its checksum."""

    name: str
    checksum: Checksum

    @property
    def is_here(self) -> bool:
        """Whether its content is in this process."""
        return self.name in _CONTENT

    @contextmanager
    def open(self, what: str) -> Iterator[pa.Buffer]:
        """The content; the driver fetches it if it has to."""
        content = _CONTENT.get(self.name)
        if content is None and self.name in _PLACES:
            content = _PLACES[self.name].fetch(self.name)
        if content is None:
            raise gone_error(what, self.name, "they are read again")
        if checksum_of(content) != self.checksum:
            raise damaged_error(what, "its checksum is wrong", self.name)
        yield pa.py_buffer(content)

    def file(self, what: str) -> None:
        """None: no sink can take what is kept elsewhere as a file."""

    def blank(self, what: str, gaps: Sequence[tuple[int, int]]) -> None:
        """None: there are no files."""

    def remove(self) -> None:
        """Forget the block."""
        _forget(self.name)


@dataclass(frozen=True, slots=True)
class ExecutorBlocks:
    """The driver's part of the store. A copy that is sent to a task writes into the task's outbox.

    Blocks of tasks that have at most `small` bytes are kept by the driver.
    """

    name: str = field(default_factory=lambda: uuid4().hex)
    small: int = _SMALL

    def __reduce__(self) -> tuple[type[_TaskBlocks], tuple[str, int]]:
        return _TaskBlocks, (self.name, self.small)

    def within(self, name: str) -> ExecutorBlocks:
        """Blocks with a longer beginning."""
        return replace(self, name=f"{self.name}/{name}")

    def create(self, name: str) -> _DriverBlock:
        """Begin a block in the driver's memory."""
        return _DriverBlock(f"{self.name}/{name}")

    def create_file(self, name: str, mode: int | None) -> _DriverBlock:  # noqa: ARG002  there are no files
        """Begin a block."""
        return self.create(name)

    def clear(self) -> None:
        """Forget them all."""
        for known in (_CONTENT, _PLACES):
            for name in [name for name in known if name.startswith(f"{self.name}/")]:
                _forget(name)


@dataclass(frozen=True, slots=True)
class _TaskBlocks:
    """The same store, in a task."""

    name: str
    small: int

    def within(self, name: str) -> _TaskBlocks:
        return replace(self, name=f"{self.name}/{name}")

    def create(self, name: str) -> TaskBlock:
        if not _outboxes:
            raise InvariantError("a task stages a block, and nobody keeps what it stages")
        return TaskBlock(f"{self.name}/{name}", partial(_outboxes[-1].take, small=self.small))

    def create_file(self, name: str, mode: int | None) -> TaskBlock:  # noqa: ARG002  there are no files
        return self.create(name)

    def clear(self) -> None:
        """Do nothing: what the task has staged is forgotten with the task."""


class _BlockWriter(ABC):
    """A block that is being written. Raises SinkError if there is no room."""

    def __init__(self, name: str) -> None:
        self.name, self._hash, self.bytes, self.closed = name, xxh3_64(), 0, False

    def write(self, data: bytes | memoryview) -> int:
        """Append all of `data`."""
        view = memoryview(data).cast("B")
        with sink_errors(self.name):
            self._append(view)
        self._hash.update(view)
        self.bytes += view.nbytes
        return view.nbytes

    def flush(self) -> None:  # noqa: B027
        """Do nothing: `finish` completes the block."""

    def finish(self) -> ExecutorBlock:
        """Complete the block."""
        self.closed = True
        try:
            with sink_errors(self.name):
                self._complete()
        except BaseException:
            self.release()
            raise
        return ExecutorBlock(self.name, Checksum(self.bytes, self._hash.hexdigest()))

    def abandon(self) -> None:
        """Give the block up, unless it is complete."""
        if not self.closed:
            self.closed = True
            self.release()

    @abstractmethod
    def _append(self, content: memoryview) -> None:
        """Append bytes. Raises OSError."""

    @abstractmethod
    def _complete(self) -> None:
        """Hand the content over. Raises OSError."""

    @abstractmethod
    def release(self) -> None:
        """Let the content go."""


class _DriverBlock(_BlockWriter):
    """A block in the driver's memory."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._content = BytesIO()

    def _append(self, content: memoryview) -> None:
        self._content.write(content)

    def _complete(self) -> None:
        _CONTENT[self.name] = self._content.getvalue()
        self.release()

    def release(self) -> None:
        self._content.close()


class TaskBlock(_BlockWriter):
    """A block that a task writes, for the task's outbox."""

    def __init__(self, name: str, take: Callable[[TaskBlock], None]) -> None:
        super().__init__(name)
        self.pieces, self._take = Pieces(), take

    def _append(self, content: memoryview) -> None:
        self.pieces.write(content)

    def _complete(self) -> None:
        self.pieces.finish()
        self._take(self)

    def release(self) -> None:
        """Let memory and disk space go."""
        self.pieces.release()


class Outbox:
    """The complete blocks of a running task."""

    def __init__(self) -> None:
        self.small: dict[str, bytes] = {}
        self.large: list[TaskBlock] = []
        self._room = _SMALL_IN_ALL

    def take(self, block: TaskBlock, small: int) -> None:
        """Take a block over. One of at most `small` bytes goes out with the result, if there is room."""
        if block.bytes <= min(small, self._room):
            self._room -= block.bytes
            self.small[block.name] = b"".join(piece.content() for piece in block.pieces)
            block.release()
        else:
            self.large.append(block)


_outboxes: list[Outbox] = []
"""The outbox of the task that this process runs, if it stages blocks."""


@contextmanager
def outbox() -> Iterator[Outbox]:
    """Collect the blocks that are completed until the end of the context."""
    _outboxes.append(Outbox())
    try:
        yield _outboxes[-1]
    finally:
        for block in _outboxes.pop().large:
            block.release()


@contextmanager
def present(blocks: Mapping[str, bytes]) -> Iterator[None]:
    """Let a task open these blocks until the end of the context."""
    _CONTENT.update(blocks)
    try:
        yield
    finally:
        for name in blocks:
            _CONTENT.pop(name, None)


def remember(small: Mapping[str, bytes], places: Mapping[str, BlockLocation]) -> None:
    """Note blocks that a task has written: their content, or where they are kept. For the driver."""
    _CONTENT.update(small)
    _PLACES.update(places)


def content_of(name: str) -> bytes | memoryview | None:
    """The content of a block in this process; None if it is elsewhere."""
    return _CONTENT.get(name)


def place_of(name: str) -> BlockLocation | None:
    """Where a block is kept; None if that is not known any more."""
    return _PLACES.get(name)


def _forget(name: str) -> None:
    _CONTENT.pop(name, None)
    place = _PLACES.pop(name, None)
    if place is not None:
        place.release(name)
