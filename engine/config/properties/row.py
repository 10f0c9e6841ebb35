"""The catalogue of a connector's properties: for each its kind, shape, default and meaning.

A name with a `<word>` is a pattern: `column.mask.with.<length>.chars`. A `<word>` at the end matches
anything, including dots; elsewhere it matches no dot.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from engine.config.properties.shapes import VERBATIM, Shape

if TYPE_CHECKING:
    from collections.abc import Mapping


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
        plain, letters = self._known
        close = _closest(_plain(name[:200]), letters)
        return "" if close is None else plain[close]

    @cached_property
    def _known(self) -> tuple[dict[str, str], dict[str, int]]:
        """The names in plain letters, and the letters of these; only a misspelt name needs them."""
        plain = {_plain(row.name): row.name for row in self.rows}
        return plain, {name: _letters(name) for name in plain}


def _closest(word: str, known: Mapping[str, int], cutoff: float = 0.75) -> str | None:
    """The most similar of the known words, as `difflib.get_close_matches` finds it, in a fifth of the time.

    `known` has the `_letters` of each. It begins with words of like length, and each word that it finds
    raises the bar for the next ones.
    """
    letters, best = _letters(word), (cutoff, "")
    matcher = difflib.SequenceMatcher()
    matcher.set_seq2(word)
    for other in sorted(known, key=lambda other: abs(len(other) - len(word))):
        common = best[0] * (len(word) + len(other)) / 2  # characters that both must have
        if len(word) - (letters & ~known[other]).bit_count() < common:
            continue
        if len(other) - (known[other] & ~letters).bit_count() < common:
            continue
        matcher.set_seq1(other)
        best = max(best, (matcher.ratio(), other))
    return best[1] or None


def _letters(word: str) -> int:
    """The characters of a word as a set of bits, one for each of up to six equal characters.

    Bits that only one of two words has stand for at least as many characters that the other one lacks.
    """
    counts = Counter(ord(character) % 64 for character in word)
    return sum(((1 << min(count, 6)) - 1) << (6 * code) for code, count in counts.items())


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", ".").replace("-", ".")
