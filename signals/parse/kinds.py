"""How values and texts of signals are named in answers."""

from __future__ import annotations


def kind(value: object) -> str:
    """The JSON name of a value's type."""
    if value is None:
        return "null"
    names = {bool: "a boolean", str: "a string", list: "an array", dict: "an object"}
    return names.get(type(value), "a number")


def shown(text: str) -> str:
    """A text from a signal, quoted for an answer and truncated if long."""
    return repr(text if len(text) <= 80 else text[:80] + "…")
