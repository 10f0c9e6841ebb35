"""The catalogue of a connector's properties: for each its kind, shape, default and meaning.

A name with a `<word>` is a pattern: `column.mask.with.<length>.chars`. A `<word>` at the end matches
anything, including dots; elsewhere it matches no dot.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from engine.config.shapes import VERBATIM, Shape


class Kind(StrEnum):
    """What becomes of a property."""

    APPLIED = "applied"
    LATER = "later"
    """Parsed, but not supported yet; the events don't depend on it, so it is only warned about."""
    LATER_REFUSED = "later, refused"
    """Not supported yet, and the events depend on it: refused unless it says the default."""
    IGNORED = "without effect"
    ACCEPTED = "accepted"
    """Given with the only value allowed, which describes what is done anyway. Not used in rows."""
    REFUSED = "refused"
    """Never supported, and the events depend on it: refused unless it says the default."""
    RENAMED = "renamed"
    """An older version's name; `text` is today's."""


APPLIED, LATER, LATER_REFUSED = Kind.APPLIED, Kind.LATER, Kind.LATER_REFUSED
IGNORED, REFUSED, RENAMED = Kind.IGNORED, Kind.REFUSED, Kind.RENAMED


@dataclass(frozen=True, slots=True)
class Property:
    """A row of the catalogue. `text`: what the property does, why it has no effect, or what to do instead."""

    name: str
    kind: Kind
    text: str
    shape: Shape = VERBATIM
    default: str = ""
    required: bool = False

    @property
    def is_pattern(self) -> bool:
        """Whether the name contains a `<word>`."""
        return "<" in self.name

    def standard(self) -> object:
        """The value if the file has none; empty if the property is mandatory."""
        return "" if self.required else self.shape.read(self.default)

    def parts(self, name: str) -> tuple[str, ...] | None:
        """The parts of `name` at the `<word>`s of this row; None if it doesn't match."""
        found = _expression(self.name).fullmatch(name)
        return found.groups() if found else None


@lru_cache(maxsize=1024)
def _expression(name: str) -> re.Pattern[str]:
    pieces = re.split(r"<\w+>", name)
    text = "([^.]+)".join(map(re.escape, pieces[:-1]))
    last = "(.+)" if not pieces[-1] else "([^.]+)"
    return re.compile(text + last + re.escape(pieces[-1]) if len(pieces) > 1 else re.escape(name), re.DOTALL)


class Catalogue:
    """The rows of one connector's properties. Exact names are looked up first, then patterns."""

    def __init__(self, rows: tuple[Property, ...]) -> None:
        self.rows = rows
        self._exact = {row.name: row for row in rows if not row.is_pattern}
        self._patterns = sorted((row for row in rows if row.is_pattern), key=lambda row: -len(row.name))

    def find(self, name: str) -> Property | None:
        """The row for a property's name; of several patterns the longest wins. None if unknown."""
        if name in self._exact:
            return self._exact[name]
        return next((row for row in self._patterns if row.parts(name) is not None), None)

    def suggestion(self, name: str) -> str:
        """The known name that `name` most likely meant, or an empty string."""
        plain = {_plain(known): known for known in (row.name for row in self.rows)}
        close = difflib.get_close_matches(_plain(name[:200]), plain, n=1, cutoff=0.75)
        return plain[close[0]] if close else ""


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", ".").replace("-", ".")
