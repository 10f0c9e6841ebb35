"""Matches expressions that RE2 can't handle: Java's syntax, by backtracking, under a time limit.

They use look-around, back references, atomic groups or possessive quantifiers. Backtracking may take time
exponential in the name, so each match has a time limit. Only expressions from the configuration get here.
Those in signals run on RE2 only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import regex

from engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_S: Final = 1.0
"""The most seconds to match one name."""

_MOST_ITEMS: Final = 100_000
"""The most items of an expression with its repetitions expanded, which is how `regex` stores them."""

_REPETITION = re.compile(r"\{(?=[0-9,])[0-9]*(?:,[0-9]*)?\}")
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
_ITEM = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?P<least>\d*)(?:,\d*)?\}|.", re.DOTALL)
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


def matcher(expression: str, *, ignore_case: bool, anywhere: bool = False) -> Callable[[str], bool]:
    """A matcher for the whole of a name, or with `anywhere` for a part of it.

    Case is folded only for ASCII letters. Raises ValueError for a wrong expression. The matcher raises
    ConfigError if a name takes too long.
    """
    text = _Translation().run(expression)
    _check_size(text)
    case = re.IGNORECASE if ignore_case else 0
    try:
        re.compile(text, re.ASCII | case)
        pattern = regex.compile(text, regex.VERSION0 | regex.ASCII | (regex.IGNORECASE if case else 0))
    except (re.error, regex.error, OverflowError, RecursionError) as exc:
        raise ValueError(f"an expression that does not compile: {exc}") from exc

    matched = pattern.search if anywhere else pattern.fullmatch

    def matches(name: str) -> bool:
        try:
            return matched(name, timeout=LONGEST_S) is not None
        except TimeoutError as exc:
            raise ConfigError(
                f"the expression {expression!r} takes more than {LONGEST_S:g} s to match {name!r}",
                hint="write it without look-around, back references and possessive quantifiers",
            ) from exc

    return matches


def _check_size(text: str) -> None:
    """Raise ValueError if `regex` would need gigabytes for the expression's repetitions."""
    sizes, last = [0], 0  # the size of each open group so far, and of the item that may be repeated next
    for item in _ITEM.finditer(text):
        if item[0] == "(":
            sizes.append(0)
            last = 0
        elif item[0] == ")" and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] += last
        elif item["least"] is not None:
            times = max(1, int(item["least"][:9] or 0))  # repetitions beyond the least take no memory
            sizes[-1] += last * (times - 1)
            last *= times
        else:
            last = 1
            sizes[-1] += 1
        if sizes[-1] > _MOST_ITEMS:
            raise ValueError(f"an expression of more than {_MOST_ITEMS} items, repetitions written out")


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
            if token[0] == "{" and not self.in_class and not _REPETITION.match(expression, token.start()):
                self.out.append(r"\{")  # a literal one; to `regex` it may begin a fuzzy match
            elif kind == "plain":
                plain(token[0])
            elif kind in {"flags_end", "group"} and self.in_class:
                for character in token[0]:  # inside a class `(?<` is three members
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
        """Write the flags without `d` and `u`, which have no effect here, and without switching `i` on."""
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
        # Python reserves doubled signs in a class for future set operations
        doubtful = character in "&~|" or (character == "-" and self.out[-1] == "-")
        self.out.append("\\" + character if doubtful else character)


def _character(code: str) -> str:
    number = int(code, 16)
    if number > 0x10FFFF:
        raise ValueError(f"\\x{{{code}}} is no character")
    return chr(number)
