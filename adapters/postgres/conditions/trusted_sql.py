"""Rewrites SQL of fully trusted users so that the JDBC driver reads it as the server does. Pure.

This covers SELECTs of the settings, row filters of the publication, and conditions where
`tidemark.snapshot.conditions` is `sql`. The driver looks for `?` and `{` outside of quotes, and has its own
rules for where quotes end. So texts are tokenised as the server does it and rewritten in the simplest form:
comments become blanks, and every kind of string becomes a plain one.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

from adapters.postgres.server.sql import quote_literal

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN: Final = re.compile(
    r"""(?P<blank>[ \t\n\r\f\v]+)
      | (?P<line>--[^\n\r]*)
      | (?P<block>/\*)
      | (?P<escaped>[eE]'(?P<escapes>(?:[^'\\]|\\.|'')*)')
      | (?P<unicode>[uU]&(?:'(?:[^']|'')*'|"(?:[^"]|"")*"))
      | (?P<bits>[bBxX]'[0-9a-fA-F]*')
      | (?P<string>[nN]?'(?P<plain>(?:[^']|'')*)')
      | (?P<name>"(?:[^"]|"")+"|[A-Za-z_\x80-\U0010ffff][\w$]*)
      | (?P<dollar>\$(?P<tag>(?:[A-Za-z_\x80-\U0010ffff]\w*)?)\$(?P<body>.*?)\$(?P=tag)\$)
      | (?P<parameter>\$[0-9]+)
      | (?P<number>[0-9][0-9A-Za-z_.]*)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT: Final = re.compile(r"/\*|\*/")
_ESCAPE: Final = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9a-fA-F]{1,2})|u(?P<four>[0-9a-fA-F]{4})"
    r"|U(?P<eight>[0-9a-fA-F]{8})|(?P<letter>.))",
    re.DOTALL,
)
_LETTERS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_STRINGS: Final = frozenset({"escaped", "string", "dollar"})


def for_jdbc(sql: str) -> str:
    """Double each `?` that the driver would take for a parameter; an unterminated text is left as it is."""
    try:
        return "".join(
            "??" if text == "?" and kind == "sign" else text for kind, text, _plain in _tokens(sql)
        )
    except ValueError:
        return sql


def plain_condition(condition: str) -> str:
    """A condition that every driver reads as the server does. ValueError says what is not allowed in it."""
    words: list[str] = []
    depth, before = 0, ""
    for kind, text, plain in _tokens(condition):
        if kind in _STRINGS and before in _STRINGS:
            raise ValueError("a string directly after another one")
        if kind == "parameter":
            raise ValueError(f"the parameter {text}")
        if kind == "sign":
            depth += {"(": 1, ")": -1}.get(text, 0)
            _check_sign(text, depth)
        words.append(quote_literal(_sent(plain)) if kind in _STRINGS else _written(kind, text))
        before = kind if kind not in {"blank", "line", "block"} else before
    if depth:
        raise ValueError("a bracket that is not closed")
    return "".join(words)


def _sent(plain: str) -> str:
    """A string's value as it can be sent, with surrogates in pairs. Raises ValueError if it can't."""
    if "\0" in plain:
        raise ValueError("a string with a NUL character")
    try:
        return plain.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError("a string with half of a surrogate pair") from None


def _check_sign(sign: str, depth: int) -> None:
    if depth < 0:
        raise ValueError("a bracket that was not opened")
    if sign in ";{}'\"" or not sign.isprintable():
        raise ValueError(f"the sign {sign!r} outside of quotes")


def _written(kind: str, text: str) -> str:
    if kind in {"line", "block"}:
        return " "
    return text.replace("\v", " ").replace("\f", " ") if kind == "blank" else text


def _tokens(sql: str) -> Iterator[tuple[str, str, str]]:
    """The tokens of a text: their kinds, their text, and the value of strings. Raises ValueError."""
    at = 0
    while at < len(sql):
        found = _TOKEN.match(sql, at)
        if found is None:
            raise ValueError("a text that can't be read")
        kind = next(name for name in _KINDS if found[name] is not None)
        end = _end_of_comment(sql, found.end()) if kind == "block" else found.end()
        yield kind, sql[at:end], _meant(kind, found)
        at = end


_KINDS: Final = (
    *("blank", "line", "block", "escaped", "unicode", "bits", "string", "name", "dollar", "parameter"),
    *("number", "sign"),
)


def _end_of_comment(sql: str, at: int) -> int:
    """Where a comment ends; comments nest."""
    depth = 1
    for mark in _COMMENT.finditer(sql, at):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    raise ValueError("a comment that is not closed")


def _meant(kind: str, found: re.Match[str]) -> str:
    match kind:
        case "escaped":
            return _ESCAPE.sub(_character, found["escapes"].replace("''", "'"))
        case "string":
            return found["plain"].replace("''", "'")
        case "dollar":
            return found["body"]
    return ""


def _character(found: re.Match[str]) -> str:
    for name, base in (("octal", 8), ("hex", 16), ("four", 16), ("eight", 16)):
        if found[name]:
            code = int(found[name], base)
            if code > sys.maxunicode:
                raise ValueError("an escape of no character")
            return chr(code)
    return _LETTERS.get(found["letter"], found["letter"])
