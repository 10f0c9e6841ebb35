"""What JSON calls the types of its values."""

from __future__ import annotations


def kind(value: object) -> str:
    """The JSON name of a value's type."""
    if value is None:
        return "null"
    names = {bool: "a boolean", str: "a string", list: "an array", dict: "an object"}
    return names.get(type(value), "a number")
