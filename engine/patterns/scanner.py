r"""Scans the text of a Java expression from left to right: characters, quoting and escapes. Pure.

Owns what denotes characters: a letter, `\x41`, `\p{Lu}`, `\d`. `java.py` parses what they form together.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from engine.patterns.character_sets import SHORTHANDS, CharacterSet, property_set
from engine.patterns.untranslatable import Untranslatable

if TYPE_CHECKING:
    from collections.abc import Callable

_Read = TypeVar("_Read")
_MOST_NESTED: Final = 100
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\.|[^\\]+", re.DOTALL)
_PROPERTY = re.compile(r"([a-zA-Z])|\{([^{}]*)\}")
_HEX = re.compile(r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,6})\}")
_UNIT = re.compile("[0-9a-fA-F]{4}")
_LOW_SURROGATE = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_OCTAL = re.compile(r"[0-3][0-7]{2}|[0-7]{1,2}")
_CONTROL = re.compile(r".", re.DOTALL)
_NAME = re.compile(r"\{([A-Z0-9 -]{1,100})\}")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}


class Scanner:
    r"""An expression, with `\Q…\E` rewritten as escapes, and the current place in it."""

    def __init__(self, expression: str) -> None:
        if any("\ud800" <= character <= "\udfff" for character in expression):
            raise Untranslatable("it has half of a surrogate pair")
        self.text, self.at = _unquoted(expression), 0
        self._depth = 0

    @property
    def ended(self) -> bool:
        """Whether everything is read."""
        return self.at >= len(self.text)

    def sees(self, *signs: str) -> bool:
        """Whether one of these signs comes next."""
        return self.text.startswith(signs, self.at)

    def took(self, sign: str) -> bool:
        """Skip this sign if it comes next; returns whether it did."""
        if not self.sees(sign):
            return False
        self.at += len(sign)
        return True

    def next(self) -> str:
        """The next character, whatever it is."""
        self.at += 1
        return self.text[self.at - 1]

    def nested(self, read: Callable[[], _Read]) -> _Read:
        """Read what is in brackets. Refuses too many of them within each other."""
        self._depth += 1
        if self._depth > _MOST_NESTED:
            self.lacking(f"more than {_MOST_NESTED} brackets within each other")
        found = read()
        self._depth -= 1
        return found

    def matched(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """The rest of an escape."""
        found = pattern.match(self.text, self.at)
        if found is None:
            self.refuse("an escape that is not complete")
        self.at = found.end()
        return found

    def refuse(self, what: str) -> NoReturn:
        """Refuse something that is wrong in Java, or that is never written in practice."""
        raise Untranslatable(f"it has {what} (near character {self.at + 1})")

    def lacking(self, what: str) -> NoReturn:
        """Refuse something that RE2 lacks."""
        raise Untranslatable(
            f"it has {what} (near character {self.at + 1}), which RE2 can't match as Java does"
        )

    def escaped(self, *, ignore_case: bool) -> CharacterSet | str:
        """The character, or the class of characters, that the escape at this place denotes."""
        letter = self.text[self.at + 1 : self.at + 2]
        if not letter:
            self.refuse("a lone backslash at the end")
        self.at += 2
        if letter in {"p", "P"}:
            return self._property(negated=letter == "P", ignore_case=ignore_case)
        if letter.lower() in SHORTHANDS:
            members = SHORTHANDS[letter.lower()]
            return members if letter.islower() else members.complement()
        return self._coded(letter)

    def _coded(self, letter: str) -> str:
        """The character of an escape that denotes a single one."""
        match letter:
            case "x":
                found = self.matched(_HEX)
                return self._character(int(found[1] or found[2], 16))
            case "u":
                return self._unicode()
            case "0":
                return chr(int(self.matched(_OCTAL)[0], 8))
            case "c":
                return chr(ord(self.matched(_CONTROL)[0]) ^ 64)
            case "N":
                return self._named()
        if letter not in _CONTROLS and letter.isascii() and letter.isalnum():
            self.refuse(rf"\{letter}")
        return _CONTROLS.get(letter, letter)

    def _unicode(self) -> str:
        code = int(self.matched(_UNIT)[0], 16)
        low = _LOW_SURROGATE.match(self.text, self.at) if 0xD800 <= code <= 0xDBFF else None
        if low is None:
            return self._character(code)
        self.at = low.end()
        return chr(0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00)

    def _character(self, code: int) -> str:
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            self.refuse(f"the code {code:x}, which is no character")
        return chr(code)

    def _named(self) -> str:
        name = self.matched(_NAME)[1]
        try:
            return unicodedata.lookup(name)
        except KeyError:
            self.refuse(f"no character {name!r}")

    def _property(self, *, negated: bool, ignore_case: bool) -> CharacterSet:
        found = self.matched(_PROPERTY)
        name = found[1] or found[2]
        members = property_set(name, ignore_case=ignore_case)
        if members is None:
            self.lacking(rf"\p{{{name[:40]}}}")
        return members.complement() if negated else members


def _unquoted(expression: str) -> str:
    r"""The expression with the characters in `\Q…\E` escaped one by one, which is also Java's first step."""

    def escaped(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        return "".join(
            character if character.isascii() and character.isalpha() else rf"\x{{{ord(character):x}}}"
            for character in found[1]
        )

    return _QUOTED.sub(escaped, expression)
