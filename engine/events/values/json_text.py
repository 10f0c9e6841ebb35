"""Single values as JSON text, as Java's Jackson writes them as bytes. `json_strings` writes columns."""

from __future__ import annotations

_SHORT = {0x08: "b", 0x09: "t", 0x0A: "n", 0x0C: "f", 0x0D: "r", 0x22: '"', 0x5C: "\\"}


def _escape_table() -> list[str]:
    table = [f"\\u{code:04X}" for code in range(0x20)] + [chr(code) for code in range(0x20, 0x80)]
    for code, letter in _SHORT.items():
        table[code] = "\\" + letter
    return table


ESCAPES = _escape_table()
"""The characters below 128 as they stand in a JSON string."""


def quote(text: str) -> str:
    """One JSON string with its quotes."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'  # nothing to escape, as in all of our own names
    return '"' + "".join(map(_escaped_character, text)) + '"'


def quote_unpaired(text: str) -> str:
    """As `quote`, but without surrogates: what Jackson writes into a Java string instead of bytes."""
    return '"' + "".join(ESCAPES[ord(c)] if ord(c) < 0x80 else c for c in text) + '"'


def _escaped_character(character: str) -> str:
    code = ord(character)
    if code < 0x10000:
        return ESCAPES[code] if code < 0x80 else character
    surrogates = character.encode("utf-16-be").hex().upper()
    return f"\\u{surrogates[:4]}\\u{surrogates[4:]}"


def json_text(value: object) -> str:
    """A value as JSON text: objects, lists, strings, integers and constants."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{quote(name)}:{json_text(member)}" for name, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    return "null" if value is None else str(value).lower()
