"""What files need to outlive the machine. Raises OSError, which callers turn into errors of their own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def force_directory(directory: Path) -> None:
    """Force a directory's entries to disk: a renamed file is only safe when its directory is."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
