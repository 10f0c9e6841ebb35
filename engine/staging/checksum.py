"""What a file held when it was written: its size and a checksum, taken while it was written.

Whoever maps a file compares first: a file that was cut short or changed ends in an error of ours, where
mapping it would kill the process or give other rows.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

from xxhash import xxh3_64

from engine.model import Checksum
from engine.staging.files import write_all

if TYPE_CHECKING:
    from pathlib import Path

Content: TypeAlias = "bytes | memoryview"
PRIVATE = 0o600
"""The mode of a file that only its owner may read."""


def checksum_of(content: Content) -> Checksum:
    """The checksum of a content."""
    view = memoryview(content)
    return Checksum(view.nbytes, xxh3_64(view).hexdigest())


class ChecksumFile:
    """A file that is written from its beginning to its end; `checksum` is that of what was written so far.

    One that is there is replaced. `mode` None: as the umask says. Raises OSError.
    """

    def __init__(self, path: Path | str, mode: int | None = PRIVATE) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o666 if mode is None else mode)
        self._file = open(descriptor, "wb", buffering=0)  # noqa: PTH123, SIM115  `close` closes it
        if mode is not None:
            os.fchmod(descriptor, mode)
        self._bytes, self._hash = 0, xxh3_64()

    def write(self, data: Content) -> int:
        """Write all of it; gives its size."""
        view = memoryview(data).cast("B")
        written = write_all(self._file, view)
        self._hash.update(view)
        self._bytes += written
        return written

    @property
    def checksum(self) -> Checksum:
        """The checksum of what was written."""
        return Checksum(self._bytes, self._hash.hexdigest())

    def fileno(self) -> int:
        """The file's descriptor."""
        return self._file.fileno()

    def force(self) -> None:
        """Force what was written to disk."""
        os.fsync(self._file.fileno())

    def flush(self) -> None:
        """Nothing is kept back."""

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._file.closed

    def close(self) -> None:
        """Close it. Twice is harmless."""
        self._file.close()
