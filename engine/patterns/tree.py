"""A regular expression as a tree, and the tree written in RE2's syntax. Pure.

Classes are written as ranges of code points, groups without captures. `java.py` parses texts into trees.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias, assert_never

from engine.patterns.character_sets import EVERYTHING, LAST, CharacterSet
from engine.patterns.untranslatable import Untranslatable

_LONGEST: Final = 1 << 20
_ANY_CHARACTER = EVERYTHING.without_surrogates()


@dataclass(frozen=True, slots=True)
class Assertion:
    r"""What must hold between characters, such as `^` or `\b`, in RE2's syntax; but `$` is Java's."""

    name: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """Nodes one after another."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several nodes."""

    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A node repeated; `most` None means no upper bound."""

    item: Node
    least: int
    most: int | None


Node: TypeAlias = "CharacterSet | Assertion | Sequence | Choice | Repeat"


def has_assertion(node: Node) -> bool:
    """Whether the tree contains a Place."""
    match node:
        case CharacterSet():
            return False
        case Assertion():
            return True
        case Sequence(inner) | Choice(inner):
            return any(map(has_assertion, inner))
        case Repeat(item):
            return has_assertion(item)
        case _:
            assert_never(node)


def written(node: Node) -> str:
    """The tree in RE2's syntax, for a match of the whole text. Raises Untranslatable."""
    writer = _Writer()
    writer.write(node, last=True)
    return "".join(writer.out)


class _Writer:
    def __init__(self) -> None:
        self.out: list[str] = []
        self._length = 0

    def write(self, node: Node, *, last: bool) -> None:
        """Write a node. `last`: nothing after it consumes a character."""
        match node:
            case CharacterSet():
                self._put(_members(node.without_surrogates()))
            case Assertion():
                self._assertion(node, last=last)
            case Sequence(items):
                self._sequence(items, last=last)
            case Choice(branches):
                self._choice(branches, last=last)
            case Repeat(item, least, most):
                self._put("(?:")
                self.write(item, last=last and most == 1)
                self._put(")" + _count(least, most))
            case _:
                assert_never(node)

    def _assertion(self, assertion: Assertion, *, last: bool) -> None:
        # Java's `$` also matches before a final line end, for which RE2 would have to look ahead.
        if assertion.name == "$" and not last:
            raise Untranslatable("it has '$' or \\Z before its end, which RE2 can't match as Java does")
        self._put(r"\z" if assertion.name == "$" else assertion.name)

    def _sequence(self, items: tuple[Node, ...], *, last: bool) -> None:
        ends = len(items)
        while ends and isinstance(items[ends - 1], Assertion):
            ends -= 1
        for number, item in enumerate(items, 1):
            self.write(item, last=last and number >= ends)

    def _choice(self, branches: tuple[Node, ...], *, last: bool) -> None:
        for number, branch in enumerate(branches):
            self._put("|" if number else "(?:")
            self.write(branch, last=last)
        self._put(")")

    def _put(self, text: str) -> None:
        self._length += len(text)
        if self._length > _LONGEST:
            raise Untranslatable("its classes are too large")
        self.out.append(text)


@lru_cache(maxsize=256)
def _members(members: CharacterSet) -> str:
    ranges = members.ranges
    if ranges == _ANY_CHARACTER.ranges:
        return "(?s:.)"
    if not ranges:
        return rf"[^\x{{0}}-\x{{{LAST:x}}}]"
    single = [chr(first) for first, last in ranges if first == last]
    if len(single) == len(ranges) == 1:
        return _character(ranges[0][0])
    if len(single) == len(ranges) == 2 and single[0].lower() == single[1]:
        # RE2 reads [Kk] as (?i:k), which may include the Kelvin sign
        return f"(?:{'|'.join(single)})"
    return "[" + "".join(_character(first) + "-" + _character(last) for first, last in ranges) + "]"


def _character(code: int) -> str:
    character = chr(code)
    return character if character.isascii() and character.isalnum() else rf"\x{{{code:x}}}"


def _count(least: int, most: int | None) -> str:
    match least, most:
        case 0, 1:
            return "?"
        case 0, None:
            return "*"
        case 1, None:
            return "+"
    return f"{{{least},{'' if most is None else most}}}"
