"""Checksums of files: size and digest, computed while the file is written.

A reader verifies a file before it maps it. A truncated or changed file then raises one of our errors, where
mapping it could kill the process or yield wrong rows.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

from xxhash import xxh3_64

from engine.model import Checksum
from engine.staging.writing import write_all

if TYPE_CHECKING:
    from pathlib import Path

Content: TypeAlias = "bytes | memoryview"
PRIVATE = 0o600
"""The mode of a file that only its owner may access."""


def checksum_of(content: Content) -> Checksum:
    """The checksum of this content."""
    view = memoryview(content)
    return Checksum(view.nbytes, xxh3_64(view).hexdigest())


class ChecksumFile:
    """A file written sequentially; `checksum` covers what was written so far.

    An existing file is replaced. `mode` None leaves the mode to the umask. Raises OSError.
    """

    def __init__(self, path: Path | str, mode: int | None = PRIVATE) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o666 if mode is None else mode)
        self._file = open(descriptor, "wb", buffering=0)  # noqa: PTH123, SIM115  `close` closes it
        if mode is not None:
            os.fchmod(descriptor, mode)
        self._bytes, self._hash = 0, xxh3_64()

    def write(self, data: Content) -> int:
        """Write all of `data`; returns its size."""
        view = memoryview(data).cast("B")
        written = write_all(self._file, view)
        self._hash.update(view)
        self._bytes += written
        return written

    @property
    def checksum(self) -> Checksum:
        """The checksum of what was written so far."""
        return Checksum(self._bytes, self._hash.hexdigest())

    def fileno(self) -> int:
        """The file's descriptor."""
        return self._file.fileno()

    def force(self) -> None:
        """Force what was written to disk (fsync)."""
        os.fsync(self._file.fileno())

    def flush(self) -> None:
        """Do nothing: writes are not buffered."""

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._file.closed

    def close(self) -> None:
        """Close it. Twice is harmless."""
        self._file.close()
