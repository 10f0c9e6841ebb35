"""Staged blocks as files below one directory, which driver and executors share.

Each file's checksum is computed while it is written and is part of its handle. A reader verifies size and
checksum before it maps the file: mapping one that was cut short could kill the process.
"""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from adapters.storage.disk import make_private
from engine.staging.checksum import PRIVATE, ChecksumFile, checksum_of
from engine.staging.damage import damaged_error, gone_error
from engine.staging.files import sink_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from engine.model import Checksum

_PORTION_BYTES = 512 << 10
"""Forced in small portions, since every other fsync to the same disk waits for the one in progress."""


@dataclass(frozen=True, slots=True)
class FileBlock:
    """A file with its checksum."""

    path: str
    checksum: Checksum
    is_here: ClassVar[bool] = True

    @contextmanager
    def open(self, what: str) -> Iterator[pa.Buffer]:
        """The content, memory-mapped."""
        self.file(what)
        with _present(what, self.path):
            source = pa.memory_map(self.path)
        with source:
            content = source.read_buffer()
            if checksum_of(content) != self.checksum:
                raise damaged_error(what, "its checksum is wrong", self.path)
            yield content

    def file(self, what: str) -> str:
        """The path."""
        with _present(what, self.path):
            size = os.stat(self.path).st_size  # noqa: PTH116  a path's text
        if size != self.checksum.bytes:
            raise damaged_error(what, f"it has {size} bytes of {self.checksum.bytes}", self.path)
        return self.path

    def blank(self, what: str, gaps: Sequence[tuple[int, int]]) -> FileBlock | None:
        """Overwrite the ranges in place. None for a file of an executor that runs as another user."""
        with self.open(what):
            pass  # verified
        with sink_errors(self.path), _present(what, self.path):
            try:
                file = os.open(self.path, os.O_RDWR)
            except PermissionError:
                return None
            try:
                for begin, end in gaps:
                    _blank(file, begin, end)
                os.fsync(file)
                with pa.memory_map(self.path) as content:
                    return FileBlock(self.path, checksum_of(content.read_buffer()))
            finally:
                os.close(file)

    def remove(self) -> None:
        """Remove the file."""
        Path(self.path).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class FileBlocks:
    """Blocks below a directory, which is created with the first one."""

    directory: str

    def within(self, name: str) -> FileBlocks:
        """A subdirectory."""
        return FileBlocks(f"{self.directory}/{name}")

    def create(self, name: str) -> _FileWriter:
        """Begin a file that only its owner may access."""
        return _FileWriter(self._path(name), PRIVATE)

    def create_file(self, name: str, mode: int | None) -> _ForcedWriter:
        """Begin a file that is forced to disk."""
        return _ForcedWriter(self._path(name), mode)

    def clear(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def _path(self, name: str) -> str:
        with sink_errors(self.directory):
            make_private(Path(self.directory))
        return f"{self.directory}/{name}"


class _FileWriter:
    """A file that is being written."""

    def __init__(self, path: str, mode: int | None) -> None:
        self._path = path
        with sink_errors(path):
            self._file = ChecksumFile(path, mode)

    def write(self, data: bytes | memoryview) -> int:
        with sink_errors(self._path):
            return self._file.write(data)

    def flush(self) -> None:
        pass

    @property
    def closed(self) -> bool:
        return self._file.closed

    def finish(self) -> FileBlock:
        with sink_errors(self._path):
            self._file.close()
        return FileBlock(self._path, self._file.checksum)

    def abandon(self) -> None:
        with suppress(OSError):
            self._file.close()


class _ForcedWriter(_FileWriter):
    """A file that a thread writes and forces to disk, in portions.

        write(2 MB)            write(2 MB)
        ──┬────────────────────┬──────────
          └ 0.5 MB, fsync, …   └ 0.5 MB, fsync, …

    Meanwhile the task renders what comes next. It waits if the thread is not done by then, so at most one
    portion is on its way to the disk. `write` keeps the data until then; it must not change.
    """

    def __init__(self, path: str, mode: int | None) -> None:
        super().__init__(path, mode)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tidemark-force")
        self._writing: Future[None] | None = None
        self._unforced = 0

    def write(self, data: bytes | memoryview) -> int:
        view = memoryview(data).cast("B")
        self._wait()
        self._writing = self._pool.submit(self._write_portions, view)
        return view.nbytes

    def _write_portions(self, view: memoryview) -> None:
        while view.nbytes:
            portion = view[: _PORTION_BYTES - self._unforced]
            self._unforced += self._file.write(portion)
            if self._unforced == _PORTION_BYTES:
                self._file.force()
                self._unforced = 0
            view = view[portion.nbytes :]

    def _wait(self) -> None:
        """Wait until all that was given is written. Raises SinkError if it could not be."""
        if self._writing is not None:
            with sink_errors(self._path):
                self._writing.result()

    def finish(self) -> FileBlock:
        with self._pool:
            self._wait()
            with sink_errors(self._path):
                self._file.force()
        return super().finish()

    def abandon(self) -> None:
        self._pool.shutdown()
        super().abandon()


def _blank(file: int, begin: int, end: int) -> None:
    while begin < end:
        begin += os.pwrite(file, b" " * (end - begin), begin)


@contextmanager
def _present(what: str, path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise gone_error(what, path) from error
