"""What a property's text must look like, and the value that it becomes.

A shape converts text into a value, or raises ValueError saying what it accepts. It never quotes the text,
which may be a secret. The catalogue says which property has which shape.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import StrEnum

_ENDLESS = 2**63 - 1
_ADDRESS = re.compile(
    r"(https?://([!-.0-9:->A-~]+@)?(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?([/?#][!-~]*)?)?"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape. `allowed` says what is accepted, as text to follow "it must be".

    `convert` returns the value, or None for any other text. It raises ValueError if it can say more than
    `allowed` does.
    """

    allowed: str
    convert: Callable[[str], object]

    def read(self, text: str) -> object:
        """Give the value of `text`, or raise ValueError saying what it must be."""
        value = self.convert(text)
        if value is None:
            raise ValueError(self.allowed)
        return value


def text(pattern: str = ".*", allowed: str = "text") -> Shape:
    """Text without surrounding blanks that matches `pattern` as a whole."""

    def convert(raw: str) -> str | None:
        return raw.strip() if re.fullmatch(pattern, raw.strip(), re.DOTALL) else None

    return Shape(allowed, convert)


def whole(least: int = 0, most: int = _ENDLESS) -> Shape:
    """A whole number in a closed range."""

    def convert(raw: str) -> int | None:
        value = int(raw) if re.fullmatch(r"[+-]?[0-9]{1,19}", raw.strip()) else least - 1
        return value if least <= value <= most else None

    bounds = f"of at least {least}" if most == _ENDLESS else f"from {least} to {most}"
    return Shape(f"a whole number {bounds}", convert)


def number(least: float, most: float) -> Shape:
    """A decimal number in a closed range."""

    def convert(raw: str) -> float | None:
        try:
            value = float(raw)
        except ValueError:
            value = math.nan
        return value if least <= value <= most else None

    return Shape(f"a number from {least:g} to {most:g}", convert)


def choice(members: type[StrEnum] | tuple[str, ...]) -> Shape:
    """One of some words, or of an enumeration's members, in any case of letters."""
    return Shape("one of " + ", ".join(members), lambda raw: _member(members, raw))


def _member(members: type[StrEnum] | tuple[str, ...], raw: str) -> str | None:
    return next((member for member in members if member == raw.strip().lower()), None)


def java_class(members: type[StrEnum]) -> Shape:
    """One of a few Java classes, by its full or simple name."""

    def convert(raw: str) -> StrEnum | None:
        name = raw.strip()
        return next((member for member in members if name in {member, member.rpartition(".")[2]}), None)

    return Shape("one of " + ", ".join(members), convert)


def subset(words: tuple[str, ...], *, nothing: str = "", everything: str = "") -> Shape:
    """Some of these words, comma separated. `nothing` alone means none of them, `everything` all."""

    def convert(raw: str) -> frozenset[str] | None:
        found = frozenset(word.strip().lower() for word in raw.split(",") if word.strip())
        if nothing and found == {nothing}:
            return frozenset()
        if everything and found == {everything}:
            return frozenset(words)
        return found if found <= set(words) else None

    alone = [word for word in (nothing, everything) if word]
    return Shape(f"a list of {', '.join(words)}" + "".join(f", or {word} alone" for word in alone), convert)


def harmless(*values: str) -> Shape:
    """Text for which only these values have no effect. They are read as the empty string."""

    def convert(raw: str) -> str:
        return "" if raw.strip() in {"", *values} else raw.strip()

    return Shape(" or ".join(values) or "empty", convert)


def stream_options(*ours: str) -> Shape:
    """`name=value` pairs separated by semicolons. The names in `ours` may not be set."""

    def convert(raw: str) -> tuple[tuple[str, str], ...] | None:
        pairs = [part.partition("=") for part in raw.split(";") if part.strip()]
        options = tuple((name.strip(), value.strip()) for name, _, value in pairs)
        wrong = any(not re.fullmatch(r"[\w.-]+", name) or name in ours for name, _ in options)
        return None if wrong else options

    return Shape("name=value pairs separated by semicolons, without " + ", ".join(ours), convert)


def _size(raw: str) -> int | None:
    found = re.fullmatch(r"([0-9]{1,15})([kmg]?)b?", raw.strip().lower())
    value = int(found[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[found[2]] if found else 0
    return value if 1024 <= value <= _ENDLESS else None


def _file_mode(raw: str) -> int | None:
    """A mode that lets its owner read and write; 0: none is given."""
    if not raw.strip():
        return 0
    found = re.fullmatch(r"0?([0-7]{3})", raw.strip())
    mode = int(found[1], 8) if found else 0
    return mode if mode & 0o600 == 0o600 else None


def _placeholder(raw: str) -> bytes | None:
    if not raw.startswith("hex:"):
        return raw.encode()
    return bytes.fromhex(raw[4:]) if re.fullmatch(r"hex:(?:[0-9a-fA-F]{2})*", raw) else None


def names(raw: str) -> tuple[str, ...]:
    """The names of a comma separated list."""
    return tuple(name.strip() for name in raw.split(",") if name.strip())


def _statements(raw: str) -> tuple[str, ...]:
    parts = (part.replace(";;", ";").strip() for part in re.findall(r"(?:[^;]|;;)+", raw))
    return tuple(part for part in parts if part)


def _table_name(raw: str) -> CollectionId | str | None:
    """`schema.table`; a part in double quotes, doubled inside, may hold a dot. Empty: no table."""
    part = r'("(?:[^"]|"")+"|[^".]+)'
    found = re.fullmatch(rf"{part}\.{part}", raw.strip())
    if found is None:
        return None if raw.strip() else ""
    return CollectionId(tuple(map(_unquoted, found.groups())))


def _unquoted(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part


def _web_address(raw: str) -> str | None:
    """An address that can be connected to, or nothing."""
    found = _ADDRESS.fullmatch(raw.strip())
    if found is None:
        return None
    try:
        _port = urlsplit(found[0]).port
    except ValueError:  # brackets in the wrong place, a port above 65535
        return None
    return raw.strip()


TEXT = text()
WEB_ADDRESS = Shape("an address such as https://host:8080/path, in ASCII", _web_address)
VERBATIM = Shape("text", lambda raw: raw)
"""Text as it is, blanks included: passwords, SQL."""
FLAG = Shape("true or false", lambda raw: {"true": True, "false": False}.get(raw.strip().lower()))
SIZE = Shape("a number of bytes of at least 1024, or with k, m or g behind it, as 64m", _size)
SIZE_OR_NONE = Shape(f"0, or {SIZE.allowed}", lambda raw: 0 if raw.strip() == "0" else _size(raw))
FILE_MODE = Shape("three or four octal digits, as 0640", _file_mode)
PLACEHOLDER = Shape("text, or 'hex:' and two hexadecimal digits for each byte", _placeholder)
NAMES = Shape("a comma separated list of names", names)
STATEMENTS = Shape("SQL statements separated by semicolons", _statements)
TABLE_NAME = Shape('schema.table, or "schema"."table" where a name holds a dot', _table_name)
