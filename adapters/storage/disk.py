"""Writing files so that they survive a crash of the machine, and so that only their owner can read them.

Raises OSError, which callers turn into their own errors.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container
    from io import FileIO
    from pathlib import Path

_FILE_MODE, _DIRECTORY_MODE = 0o600, 0o700


def force_directory(directory: Path) -> None:
    """Force a directory's entries to disk: a renamed file is only safe once its directory is."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private(directory: Path) -> None:
    """Create a directory that only its owner may enter; an existing one is left as it is."""
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)


def take_over(directory: Path, kept: Container[str] = ()) -> Path:
    """Create a private directory and remove its siblings with their content, but for those that are `kept`.

    Returns the directory. The siblings disappear at once, so nobody can rename anything out of them any more.
    """
    make_private(directory.parent)
    make_private(directory)
    for sibling in directory.parent.iterdir():
        if sibling.is_dir() and sibling.name != directory.name and sibling.name not in kept:
            gone = directory.parent / f".gone-{uuid.uuid4().hex}"
            with contextlib.suppress(FileNotFoundError):
                sibling.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
    return directory


def open_private(path: Path) -> FileIO:
    """Open a new file for unbuffered writing that only its owner may read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
    return open(descriptor, "wb", buffering=0)  # noqa: PTH123  a descriptor has no path
