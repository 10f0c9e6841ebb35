"""Sets of characters as ranges of code points, with the names that Java's expressions give them. Pure.

Owns the arithmetic of classes (union, intersection, complement, folding of ASCII letters) and Java's
predefined classes and properties. `java.py` and `scanner.py` parse Java's classes, `tree.py` writes RE2's.
"""

from __future__ import annotations

import sys
import unicodedata
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

LAST: Final = sys.maxunicode
_SURROGATES: Final = (0xD800, 0xDFFF)
_TO_OTHER_CASE: Final = ord("a") - ord("A")


@dataclass(frozen=True, slots=True)
class CharacterSet:
    """Code points as disjoint, closed ranges in ascending order."""

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> CharacterSet:
        """The union of any closed ranges."""
        joined: list[tuple[int, int]] = []
        for first, last in sorted(ranges):
            if joined and first <= joined[-1][1] + 1:
                joined[-1] = (joined[-1][0], max(joined[-1][1], last))
            else:
                joined.append((first, last))
        return cls(tuple(joined))

    @classmethod
    def characters(cls, text: str) -> CharacterSet:
        """The characters of a text."""
        return cls.of((ord(character), ord(character)) for character in text)

    def __or__(self, other: CharacterSet) -> CharacterSet:
        return CharacterSet.of((*self.ranges, *other.ranges))

    def __and__(self, other: CharacterSet) -> CharacterSet:
        return (self.complement() | other.complement()).complement()

    def complement(self) -> CharacterSet:
        """Every other code point."""
        gaps, begin = [], 0
        for first, last in self.ranges:
            if begin < first:
                gaps.append((begin, first - 1))
            begin = last + 1
        return CharacterSet((*gaps, *([(begin, LAST)] if begin <= LAST else [])))

    def folded(self) -> CharacterSet:
        """The set with each ASCII letter in both cases. Java's CASE_INSENSITIVE folds nothing else."""
        other = [
            (max(first, begin) + shift, min(last, end) + shift)
            for first, last in self.ranges
            for begin, end, shift in ((0x41, 0x5A, _TO_OTHER_CASE), (0x61, 0x7A, -_TO_OTHER_CASE))
            if max(first, begin) <= min(last, end)
        ]
        return CharacterSet.of((*self.ranges, *other))

    def without_surrogates(self) -> CharacterSet:
        """The set without surrogates, which can't occur in a text."""
        return self & CharacterSet((_SURROGATES,)).complement()


def between(first: str, last: str) -> CharacterSet:
    """A range of characters, both ends included."""
    return CharacterSet(((ord(first), ord(last)),))


EVERYTHING: Final = CharacterSet(((0, LAST),))
LINE_ENDS: Final = CharacterSet.characters("\n\r\x85\u2028\u2029")
"""The characters that Java's `.` does not match."""

DIGITS: Final = between("0", "9")
_LOWER, _UPPER = between("a", "z"), between("A", "Z")
_ALPHA = _LOWER | _UPPER
_SPACES = CharacterSet.characters(" \t\n\x0b\f\r")
_VERTICAL = CharacterSet.characters("\n\x0b\f\r\x85\u2028\u2029")
_HORIZONTAL = CharacterSet.characters(" \t\xa0\u1680\u180e\u202f\u205f\u3000") | between("\u2000", "\u200a")

SHORTHANDS: Final = {
    "d": DIGITS,
    "s": _SPACES,
    "w": _ALPHA | DIGITS | CharacterSet.characters("_"),
    "h": _HORIZONTAL,
    "v": _VERTICAL,
}
"""Java's shorthands, such as `\\d`. A capital letter means the complement."""

_POSIX = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": between("\0", "\x7f"),
    "Alpha": _ALPHA,
    "Digit": DIGITS,
    "Alnum": _ALPHA | DIGITS,
    "Punct": between("!", "/") | between(":", "@") | between("[", "`") | between("{", "~"),
    "Graph": between("!", "~"),
    "Print": between(" ", "~"),
    "Blank": CharacterSet.characters(" \t"),
    "Cntrl": between("\0", "\x1f") | CharacterSet.characters("\x7f"),
    "XDigit": DIGITS | between("a", "f") | between("A", "F"),
    "Space": _SPACES,
    "L1": between("\0", "\xff"),
    "all": EVERYTHING,
}
_CASED = frozenset({"Lu", "Ll", "Lt"})
_GROUPS = {"LC": _CASED, "LD": frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nd"})}


@lru_cache(maxsize=256)
def property_set(name: str, *, ignore_case: bool) -> CharacterSet | None:
    r"""The characters of Java's `\p{name}`; None for scripts, blocks and all other unsupported names."""
    if ignore_case and name in {"Lower", "Upper"}:
        return _ALPHA
    if name in _POSIX:
        return _POSIX[name]
    if ignore_case and name in _CASED:
        name = "LC"
    wanted = _GROUPS.get(name) or {known for known in _categories() if known == name or known[0] == name}
    if not wanted:
        return None
    return CharacterSet.of(span for known in wanted for span in _categories()[known])


@cache
def _categories() -> dict[str, list[tuple[int, int]]]:
    """The ranges of each general category, by its two letters."""
    found: dict[str, list[tuple[int, int]]] = {}
    begin = 0
    for category, members in groupby(map(unicodedata.category, map(chr, range(LAST + 1)))):
        end = begin + sum(1 for _member in members)
        found.setdefault(category, []).append((begin, end - 1))
        begin = end
    return found
