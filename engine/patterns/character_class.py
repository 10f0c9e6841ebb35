r"""Parses the character classes of Java expressions: unions, intersections, complements. Pure.

`java.py` parses everything around them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.patterns.character_sets import CharacterSet, between

if TYPE_CHECKING:
    from engine.patterns.scanner import Scanner

_MOST_RANGES: Final = 100_000
"""The most ranges of code points to process for the classes of one expression."""


def as_set(found: CharacterSet | str, *, ignore_case: bool) -> CharacterSet:
    """A class unchanged, or a character, in both cases if case is ignored."""
    if isinstance(found, CharacterSet):
        return found
    members = CharacterSet.characters(found)
    return members.folded() if ignore_case else members


class ClassParser:
    """Reads all classes of one expression."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._ignore_case, self._ranges = False, 0

    def read(self, *, ignore_case: bool) -> CharacterSet:
        """The class that the scanner has come to; its `[` is read."""
        self._ignore_case = ignore_case
        return self._scanner.nested(self._class)

    def _class(self) -> CharacterSet:
        """The class after `[`, up to its `]`: intersections of unions."""
        scanner = self._scanner
        negated = scanner.took("^")
        members = self._operand(first=True)
        while scanner.took("&&"):
            if scanner.sees("]", "&", "^"):
                scanner.refuse("'&&' in a class with nothing behind it")
            members &= self._operand(first=False)
        if not scanner.took("]"):
            scanner.refuse("a class that is not closed")
        return members.complement() if negated else members

    def _operand(self, *, first: bool) -> CharacterSet:
        """The members up to the next `&&` or `]`. A `]` in first place is a member."""
        scanner = self._scanner
        members, empty, nested = CharacterSet(), True, False
        while not scanner.ended and not scanner.sees("&&"):
            if scanner.sees("]") and not (first and empty):
                break
            if scanner.took("["):
                members |= scanner.nested(self._class)
                nested = True
            elif nested and not first:
                # Java ignores the nested class in this case
                scanner.refuse("an intersection with a class and more behind it")
            else:
                members |= self._range()
            self._ranges += len(members.ranges)
            if self._ranges > _MOST_RANGES:
                scanner.refuse("classes that are too large")
            empty = False
        if empty:
            scanner.refuse("an empty class")
        return members

    def _range(self) -> CharacterSet:
        scanner = self._scanner
        if scanner.sees(r"\v-"):
            scanner.refuse(r"a range from \v")
        low = self._member()
        if isinstance(low, CharacterSet) or not scanner.sees("-") or scanner.sees("-]", "-["):
            return as_set(low, ignore_case=self._ignore_case)
        if scanner.sees("-&&"):
            scanner.refuse("a range without an end")
        scanner.at += 1
        high = self._member()
        if isinstance(high, CharacterSet):
            scanner.refuse("a range that ends with a class")
        if high < low:
            scanner.refuse("a range that ends before it begins")
        return between(low, high).folded() if self._ignore_case else between(low, high)

    def _member(self) -> CharacterSet | str:
        """One character of a class, or the set of a shorthand."""
        if self._scanner.sees("\\"):
            return self._scanner.escaped(ignore_case=self._ignore_case)
        if self._scanner.ended:
            self._scanner.refuse("a class that is not closed")
        return self._scanner.next()
