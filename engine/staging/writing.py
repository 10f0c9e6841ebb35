"""Writing all of a text to a file that takes only a part of it at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from io import FileIO


def write_all(file: FileIO, text: memoryview) -> int:
    """Write all of `text`; returns its size. The kernel takes at most 2 GiB per call, so this loops."""
    written = 0
    while written < len(text):
        written += file.write(text[written:])
    return written
