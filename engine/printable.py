"""Text from outside, made safe for a log, a terminal or a page."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with line breaks and terminal control characters escaped."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
