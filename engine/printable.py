"""Text for people: what comes from outside made safe to print, and long lists cut short."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def printable(text: str) -> str:
    """The text with line breaks and terminal control characters escaped."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def first_named(names: Iterable[object], most: int = 10) -> str:
    """The first names, and how many more there are: `a, b and 3 more`."""
    found = [str(name) for name in names]
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more
