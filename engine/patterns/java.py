r"""Translates Java's regular expressions for RE2, or refuses them by naming what RE2 lacks. Pure.

RE2 never backtracks: its time is linear in the text for any expression. Refused are constructs that it lacks
(look-around, back references, atomic groups, possessive quantifiers) and constructs whose results differ from
Java's. Classes are expanded to ranges of code points, because `\s`, `.` and case folding differ. `$` is
accepted only where nothing can follow it, because Java's also matches before a final line end.

The result is meant for matching the whole text. It matches exactly what Java 17 matches:
`tests/unit/engine/patterns` compares it with verdicts recorded from Java.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from engine.patterns.character_class import ClassParser, as_set
from engine.patterns.character_sets import EVERYTHING, LINE_ENDS, CharacterSet
from engine.patterns.scanner import Scanner
from engine.patterns.tree import Assertion, Choice, Node, Repeat, Sequence, has_assertion, written

_MOST_REPEATS: Final = 1000
"""RE2's own bound."""
_SIMPLE: Final = ((0, 1), (0, None), (1, None))
"""What `?`, `*` and `+` mean."""

_COUNTED = re.compile(r"\{([0-9]{1,10})(?:(,)([0-9]{0,10}))?\}")
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_NAMED = re.compile(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>")
_LACKING_GROUPS = {
    "(?=": "look-ahead",
    "(?!": "look-ahead",
    "(?<=": "look-behind",
    "(?<!": "look-behind",
    "(?>": "an atomic group",
}
_LACKING_ESCAPES = {
    "G": r"\G",
    "R": r"\R",
    "X": r"\X",
    "k": "a back reference",
    **dict.fromkeys("123456789", "a back reference"),
}
_LACKING_FLAGS = {"u": "(?u)", "U": "(?U)", "x": "(?x)", "c": "(?c)"}
_PLACES = {"A": "^", "z": r"\z", "Z": "$", "b": r"\b", "B": r"\B"}
_KNOWN_FLAGS = {"i": "ignore_case", "s": "dot_all", "m": "multiline", "d": "unix_lines"}


@dataclass(frozen=True, slots=True)
class TranslatedExpression:
    """An expression in RE2's syntax.

    With `ascii_only` it agrees with Java only on ASCII texts, because Java's word boundaries also know other
    letters.
    """

    text: str
    ascii_only: bool = False


def re2_text(expression: str, *, ignore_case: bool) -> TranslatedExpression:
    """Translate; `ignore_case` folds ASCII letters, as Java's CASE_INSENSITIVE does.

    Raises Untranslatable.
    """
    parser = _Parser(Scanner(expression), ignore_case=ignore_case)
    return TranslatedExpression(written(parser.whole()), parser.bounded)


@dataclass(frozen=True, slots=True)
class _Flags:
    ignore_case: bool
    dot_all: bool = False
    multiline: bool = False
    unix_lines: bool = False


class _Parser:
    """Reads what the scanner gives; `bounded` once it has seen a word's boundary."""

    def __init__(self, scanner: Scanner, *, ignore_case: bool) -> None:
        self._scanner = scanner
        self._flags = _Flags(ignore_case)
        self._names: set[str] = set()
        self._classes = ClassParser(scanner)
        self.bounded = False

    def whole(self) -> Node:
        """The tree of the whole expression."""
        tree = self._choice()
        if not self._scanner.ended:
            self._scanner.refuse("a closing parenthesis too many")
        return tree

    # Groups and sequences.

    def _choice(self) -> Node:
        branches = [self._sequence()]
        while self._scanner.took("|"):
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _sequence(self) -> Node:
        items: list[Node] = []
        while not self._scanner.ended and not self._scanner.sees("|", ")"):
            node = self._atom()
            if node is not None:
                items.append(self._repeated(node))
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _atom(self) -> Node | None:
        """The next item that a quantifier may follow; None for flags, which match nothing."""
        scanner = self._scanner
        if scanner.sees("("):
            return self._group()
        if scanner.sees("\\"):
            return self._escape()
        if scanner.sees("?", "*", "+", "{"):
            scanner.refuse("a quantifier with nothing before it")
        character = scanner.next()
        match character:
            case "[":
                return self._classes.read(ignore_case=self._flags.ignore_case)
            case "^" | "$":
                return self._line(character)
            case ".":
                return self._dot()
        return as_set(character, ignore_case=self._flags.ignore_case)

    def _line(self, character: str) -> Assertion:
        if self._flags.multiline:
            self._scanner.lacking(f"{character!r} within lines")
        return Assertion(character)

    def _dot(self) -> CharacterSet:
        if self._flags.dot_all:
            return EVERYTHING
        ends = CharacterSet.characters("\n") if self._flags.unix_lines else LINE_ENDS
        return ends.complement()

    def _escape(self) -> Node:
        scanner = self._scanner
        letter = scanner.text[scanner.at + 1 : scanner.at + 2]
        if letter in _LACKING_ESCAPES:
            scanner.lacking(_LACKING_ESCAPES[letter])
        if scanner.sees(r"\b{"):
            scanner.lacking(r"\b{g}")
        if letter in _PLACES:
            scanner.at += 2
            self.bounded |= letter in {"b", "B"}
            return Assertion(_PLACES[letter])
        ignore_case = self._flags.ignore_case
        return as_set(scanner.escaped(ignore_case=ignore_case), ignore_case=ignore_case)

    def _group(self) -> Node | None:
        flags = self._flags
        if not self._open():
            return None
        inside = self._scanner.nested(self._choice)
        if not self._scanner.took(")"):
            self._scanner.refuse("a group that is not closed")
        self._flags = flags
        return inside

    def _open(self) -> bool:
        """Read the opening of a group; False if it only sets flags for what follows."""
        scanner = self._scanner
        for opening, name in _LACKING_GROUPS.items():
            if scanner.sees(opening):
                scanner.lacking(name)
        if named := _NAMED.match(scanner.text, scanner.at):
            if named[1] in self._names:
                scanner.refuse(f"two groups of the name {named[1][:40]!r}")
            self._names.add(named[1])
            scanner.at = named.end()
            return True
        if flags := _FLAGS.match(scanner.text, scanner.at):
            self._set_flags(flags[1], on=True)
            self._set_flags(flags[2] or "", on=False)
            scanner.at = flags.end()
            return flags[3] == ":"
        if scanner.sees("(?"):
            scanner.refuse("a group that Java does not know")
        scanner.at += 1
        return True

    def _set_flags(self, letters: str, *, on: bool) -> None:
        for letter in letters:
            if letter in _LACKING_FLAGS:
                self._scanner.lacking(_LACKING_FLAGS[letter])
            if letter not in _KNOWN_FLAGS:
                self._scanner.refuse("a flag that Java does not know")
        now = {name: getattr(self._flags, name) for name in _KNOWN_FLAGS.values()}
        self._flags = _Flags(**(now | {_KNOWN_FLAGS[letter]: on for letter in letters}))

    # Quantifiers.

    def _repeated(self, node: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return node
        # Java itself matches these incorrectly.
        if isinstance(node, Assertion) or (bounds not in _SIMPLE and has_assertion(node)):
            self._scanner.refuse(r"a repetition of ^, $ or \b")
        if self._scanner.took("+"):
            self._scanner.lacking("a possessive quantifier")
        self._scanner.took("?")  # greedy or lazy makes no difference when the whole text is matched
        return Repeat(node, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        scanner = self._scanner
        for sign, bounds in zip("?*+", _SIMPLE, strict=True):
            if scanner.took(sign):
                return bounds
        if not scanner.sees("{"):
            return None
        found = _COUNTED.match(scanner.text, scanner.at)
        if found is None:
            scanner.refuse("'{' that begins no repetition; a literal one is written \\{")
        scanner.at = found.end()
        least = int(found[1])
        most = least if found[2] is None else (int(found[3]) if found[3] else None)
        if most is not None and most < least:
            scanner.refuse(f"the repetition {found[0]}")
        if max(least, most or 0) > _MOST_REPEATS:
            scanner.lacking(f"more than {_MOST_REPEATS} repetitions")
        return least, most
