"""The catalogue of a connector's properties: for each what becomes of it, its shape, default and meaning.

A name with a `<word>` in it stands for many: `column.mask.with.<length>.chars`. A `<word>` at
the end takes anything, dots included; one before that takes no dot.
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
    """Refused with another value; what this one says is done in any case. No row's own kind."""
    REFUSED = "refused"
    """Never supported, and the events depend on it: refused unless it says the default."""
    RENAMED = "renamed"
    """An older version's name; `text` is today's."""


APPLIED, LATER, LATER_REFUSED = Kind.APPLIED, Kind.LATER, Kind.LATER_REFUSED
IGNORED, REFUSED, RENAMED = Kind.IGNORED, Kind.REFUSED, Kind.RENAMED


@dataclass(frozen=True, slots=True)
class Property:
    """One line of the catalogue. `text`: what it does, why it has no effect, or what to do."""

    name: str
    kind: Kind
    text: str
    shape: Shape = VERBATIM
    default: str = ""
    required: bool = False

    @property
    def is_pattern(self) -> bool:
        """Whether the name stands for many."""
        return "<" in self.name

    def standard(self) -> object:
        """Give the value that stands where the file says nothing; empty where it must say something."""
        return "" if self.required else self.shape.read(self.default)

    def parts(self, name: str) -> tuple[str, ...] | None:
        """Give what stands at the `<word>`s of this row in `name`; None when it doesn't fit."""
        found = _expression(self.name).fullmatch(name)
        return found.groups() if found else None


@lru_cache(maxsize=1024)
def _expression(name: str) -> re.Pattern[str]:
    pieces = re.split(r"<\w+>", name)
    text = "([^.]+)".join(map(re.escape, pieces[:-1]))
    last = "(.+)" if not pieces[-1] else "([^.]+)"
    return re.compile(text + last + re.escape(pieces[-1]) if len(pieces) > 1 else re.escape(name), re.DOTALL)


class Catalogue:
    """The rows of one connector's properties: exact names are looked up first, then those for many."""

    def __init__(self, rows: tuple[Property, ...]) -> None:
        self.rows = rows
        self._exact = {row.name: row for row in rows if not row.is_pattern}
        self._patterns = sorted((row for row in rows if row.is_pattern), key=lambda row: -len(row.name))

    def find(self, name: str) -> Property | None:
        """Give the row of a property's name; among patterns the longest wins. None: nobody knows it."""
        if name in self._exact:
            return self._exact[name]
        return next((row for row in self._patterns if row.parts(name) is not None), None)

    def suggestion(self, name: str) -> str:
        """Give the known name that `name` most likely meant, or the empty string."""
        plain = {_plain(known): known for known in (row.name for row in self.rows)}
        close = difflib.get_close_matches(_plain(name[:200]), plain, n=1, cutoff=0.75)
        return plain[close[0]] if close else ""


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", ".").replace("-", ".")
