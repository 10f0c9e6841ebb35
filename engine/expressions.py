"""Debezium's lists of regular expressions: Java's syntax, read with Python's `re`.

Owns splitting a list at its commas, translating one expression, and matching names against
several. An expression is anchored (it must match the whole name) and ignores the case of ASCII
letters, as Debezium compiles them. What Python can't say is refused, never approximated.
Which names are matched, and what then happens, is left to those who ask.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FLAGS = re.IGNORECASE | re.ASCII
"""Java's CASE_INSENSITIVE folds ASCII letters only, and its `\\w`, `\\d`, `\\s` are ASCII."""

LONGEST = 10_000
"""Characters of one expression; longer ones are refused before they are compiled."""

_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "XDigit": "0-9a-fA-F",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Space": r" \t\n\x0b\f\r",
    "Cntrl": r"\x00-\x1f\x7f",
    "ASCII": r"\x00-\x7f",
}
_ESCAPES = {"z": r"\Z", "Z": r"(?=\n?\Z)", "e": r"\x1b", "R": r"(?:\r\n|[\n\x0b\f\r])", "h": r"[ \t]"}
_TOKEN = re.compile(
    r"""\\Q(?P<quoted>.*?)(?:\\E|\Z)        # \Q…\E stands for itself
      | \\(?P<negated>[pP])\{(?P<posix>\w+)\}
      | \\x\{(?P<code>[0-9a-fA-F]{1,6})\}
      | \\k<(?P<back>\w+)>
      | \\(?P<escape>.)
      | \(\?(?P<flags>[a-zA-Z-]+)(?P<flags_end>[):])
      | \(\?<(?P<group>[a-zA-Z]\w*)>
      | (?P<plain>.)""",
    re.VERBOSE | re.DOTALL,
)


def split_expressions(text: str) -> tuple[str, ...]:
    """Split a list at its commas; a comma behind a backslash belongs to the expression.

    Empty and blank items are left out. Raises ValueError when the text ends in a lone backslash.
    """
    if len(text) - len(text.rstrip("\\")) & 1:
        raise ValueError("the list ends in a lone backslash")
    items = re.findall(r"(?:[^\\,]|\\.)+", text, re.DOTALL)
    return tuple(item.strip().replace("\\,", ",") for item in items if item.strip())


def translate(expression: str) -> str:
    """Write a Java expression in Python's syntax; most are the same in both.

    Raises ValueError with the reason when it is too long, wrong, or beyond Python.
    """
    if len(expression) > LONGEST:
        raise ValueError(f"an expression of {len(expression)} characters; at most {LONGEST}")
    text = _Translation().run(expression)
    try:
        re.compile(text, FLAGS)
    except (re.error, OverflowError, RecursionError) as exc:
        raise ValueError(f"an expression that does not compile: {exc}") from exc
    return text


def matches(expressions: Iterable[str], name: str) -> bool:
    """Tell whether one of the translated expressions matches the whole of `name`."""
    return any(_compiled(expression).fullmatch(name) for expression in expressions)


def first_found(expressions: Sequence[str], name: str) -> int:
    """The place of the first translated expression found anywhere in `name`; their count if none is."""
    places = (place for place, one in enumerate(expressions) if _compiled(one).search(name))
    return next(places, len(expressions))


@lru_cache(maxsize=4096)
def _compiled(expression: str) -> re.Pattern[str]:
    return re.compile(expression, FLAGS)


class _Translation:
    """One pass over an expression: inside a class or not, and which groups must be closed twice."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.open = [0]  # per open group: how many `(?flags:` were opened for a bare `(?flags)`
        self.in_class = False
        self.class_start = 0  # where the members of the open class begin in `out`

    def run(self, expression: str) -> str:
        for token in _TOKEN.finditer(expression):
            kind = token.lastgroup or "plain"
            plain = self._class_character if self.in_class else self._character
            if kind == "plain":
                plain(token[0])
            elif kind in {"flags_end", "group"} and self.in_class:
                for character in token[0]:  # in a class, `(?<` is three characters
                    plain(character)
            else:
                self._special(kind, token)
        return "".join(self.out) + ")" * self.open[-1]

    def _special(self, kind: str, token: re.Match[str]) -> None:
        match kind:
            case "quoted":
                self.out.append(re.escape(token["quoted"]))
            case "posix":
                self._posix(token["posix"], negated=token["negated"] == "P")
            case "code":
                self.out.append(re.escape(_character(token["code"])))
            case "back":
                self.out.append(f"(?P={token['back']})")
            case "escape":
                self._escape(token["escape"])
            case "group":
                self.open.append(0)
                self.out.append(f"(?P<{token['group']}>")
            case _:
                self._flags(token["flags"], bare=token["flags_end"] == ")")

    def _posix(self, name: str, *, negated: bool) -> None:
        members = _POSIX.get(name)
        if members is None or (negated and self.in_class):
            raise ValueError(f"\\{'P' if negated else 'p'}{{{name}}} can't be used here")
        self.out.append(members if self.in_class else f"[{'^' if negated else ''}{members}]")

    def _escape(self, letter: str) -> None:
        if letter in "GXHNVc":
            raise ValueError(f"\\{letter} can't be used here")
        if self.in_class:
            self.out.append({"h": r" \t", "e": r"\x1b"}.get(letter, "\\" + letter))
        else:
            self.out.append(_ESCAPES.get(letter, "\\" + letter))

    def _flags(self, flags: str, *, bare: bool) -> None:
        """Case is ignored anyway and `d`, `u` change nothing here, so only the rest is written."""
        on, _, off = flags.partition("-")
        on, off = (re.sub("[iduU]", "", on), re.sub("[duU]", "", off))
        prefix = f"(?{on}{'-' + off if off else ''}:"
        if not bare:
            self.open.append(0)
            self.out.append(prefix)
        elif on or off:
            self.open[-1] += 1
            self.out.append(prefix)

    def _character(self, character: str) -> None:
        if character == "(":
            self.open.append(0)
        elif character == ")":
            self.out.append(")" * self.open.pop())
            if not self.open:
                raise ValueError("an expression with a closing parenthesis too many")
        self.in_class = character == "["
        self.out.append(character)
        self.class_start = len(self.out)

    def _class_character(self, character: str) -> None:
        if character == "[":
            raise ValueError("a character class within another can't be used here")
        if character == "&" and self.out[-1] == "\\&":
            raise ValueError("an intersection of character classes can't be used here")
        if character == "^" and len(self.out) == self.class_start:
            self.class_start += 1
        elif character == "]" and len(self.out) > self.class_start:  # the first one is a member
            self.in_class = False
        # Python reserves doubled signs in a class for set operations to come
        doubtful = character in "&~|" or (character == "-" and self.out[-1] == "-")
        self.out.append("\\" + character if doubtful else character)


def _character(code: str) -> str:
    number = int(code, 16)
    if number > 0x10FFFF:
        raise ValueError(f"\\x{{{code}}} is no character")
    return chr(number)
