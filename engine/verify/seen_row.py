"""What windows say of a key. Pure."""

from __future__ import annotations

from enum import IntEnum


class SeenRow(IntEnum):
    """What a window says of a key."""

    ROW = 0
    """There is this row."""
    SUPERSEDED = 1
    """An entry of the log has superseded what the window read."""
    ABSENT = 2
    """The key was looked at by itself, and there is no row."""
