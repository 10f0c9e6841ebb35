"""What the directories of turns are called."""

from __future__ import annotations


def turn_name(turn: int) -> str:
    """The name of a turn's directory; the names sort in the order of the turns."""
    return f"turn-{turn:012d}"
