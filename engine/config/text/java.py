"""Java's `.properties` syntax, as `java.util.Properties` reads it.

Owns comments, continued lines, the three separators and escapes. A duplicate key is reported, whereas in Java
the last one wins.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_BLANK = " \t\f"
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<letter>.?))", re.DOTALL)
_KEY = re.compile(r"(?P<key>(?:[^\\=: \t\f]|\\.?)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ParsedProperties:
    """Properties in the file's order, and the faults of the text."""

    properties: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def parse_properties(text: str, shown: Callable[[str], str] = repr) -> ParsedProperties:
    """Parse properties. Problems name the line, counted from 1, and never the value.

    `shown` is how a name is quoted in them.
    """
    parsed = ParsedProperties()
    first_seen: dict[str, int] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            name, plain = _unescape(key), _unescape(value)
        except ValueError as exc:
            parsed.problems.append(f"line {number}: {exc}")
            continue
        if name in first_seen:
            lines = f"lines {first_seen[name]} and {number}"
            parsed.problems.append(f"{shown(name)} stands twice, in {lines}")
        first_seen.setdefault(name, number)
        parsed.properties[name] = plain
    return parsed


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Join continued lines. Comments can't be continued; a blank line ends a continued line."""
    lines: list[tuple[int, str]] = []
    begun: tuple[int, str] | None = None
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = raw.lstrip(_BLANK)
        if begun is None and (not line or line[0] in "#!"):
            continue
        start, before = begun or (number, "")
        begun = None
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun = (start, before + line[:-1])
        elif before + line:
            lines.append((start, before + line))
    return [*lines, begun] if begun and begun[1] else lines


def _split(line: str) -> tuple[str, str]:
    found = _KEY.match(line)
    if found is None:  # the expression matches the empty string
        return "", line
    return found["key"], line[found.end() :]


def _unescape(text: str) -> str:
    plain = _ESCAPE.sub(_character, text)
    # two escapes may form one character beyond the BMP; half of one is invalid
    joined = plain.encode("utf-16", "surrogatepass")
    try:
        return joined.decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError("half of a surrogate pair") from None


def _character(found: re.Match[str]) -> str:
    if found["code"]:
        return chr(int(found["code"], 16))
    if found["letter"] == "u":
        raise ValueError("\\u needs four hexadecimal digits")
    return _LETTERS.get(found["letter"], found["letter"])
