"""Debezium's lists of regular expressions, and who matches them.

Owns splitting a list at its commas, checking an expression, and matching names against several. An
expression is Java's; it is anchored (it must match the whole name) and ignores the case of ASCII letters, as
Debezium compiles them. RE2 matches it where it can, in a time linear in the name. What RE2 can't say is
refused where a signal says it, and left to `backtracking`, under a time limit, where the configuration does.
Which names are matched, and what then happens, is left to those who ask.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import re2

from engine.patterns import backtracking
from engine.patterns.java import re2_text
from engine.patterns.tree import Untranslatable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

LONGEST: Final = 10_000
"""Characters of one expression; longer ones are refused before they are compiled."""

_OWNERS_BYTES: Final = 8 << 20
_ANYBODYS_BYTES: Final = 1 << 20
"""What an expression may take in RE2's own form; a larger one does not compile.

One mebibyte is ten thousand alternatives, and 5 ms for a name in the worst case.
"""


def split_expressions(text: str) -> tuple[str, ...]:
    """Split a list at its commas; a comma behind a backslash belongs to the expression.

    Empty and blank items are left out. Raises ValueError when the text ends in a lone backslash.
    """
    if len(text) - len(text.rstrip("\\")) & 1:
        raise ValueError("the list ends in a lone backslash")
    items = re.findall(r"(?:[^\\,]|\\.)+", text, re.DOTALL)
    return tuple(item.strip().replace("\\,", ",") for item in items if item.strip())


def checked(expression: str) -> str:
    """The owner's expression as it is. Raises ValueError where it is too long, wrong, or beyond Python."""
    _check_length(expression)
    _owners(expression, ignore_case=True)
    return expression


def matches(expressions: Iterable[str], name: str, *, ignore_case: bool = True) -> bool:
    """Tell whether one of the owner's expressions matches the whole of `name`.

    Each name is decided once. Raises ConfigError for one that takes too long.
    """
    return any(_decided(expression, name, ignore_case) for expression in expressions)


def bounded_matcher(expression: str, *, ignore_case: bool) -> Callable[[str], bool]:
    """What tells whether anybody's expression matches the whole of a name, in a time linear in the name.

    Raises ValueError with the reason where RE2 can't say it; so does the result, for a name on which Java
    and RE2 may disagree.
    """
    _check_length(expression)
    found, ascii_only = _compiled(expression, _ANYBODYS_BYTES, ignore_case=ignore_case)
    re2.purge()  # it would keep a hundred of them

    def matches(name: str) -> bool:
        if ascii_only and not name.isascii():
            raise Untranslatable(f"it has \\b, which RE2 does not place as Java does in {name[:80]!r}")
        return found(name)

    return matches


def _check_length(expression: str) -> None:
    if len(expression) > LONGEST:
        raise ValueError(f"an expression of {len(expression)} characters; at most {LONGEST}")


@lru_cache(maxsize=1 << 16)
def _decided(expression: str, name: str, ignore_case: bool) -> bool:  # noqa: FBT001  (a cache has no keywords)
    return _owners(expression, ignore_case=ignore_case)(name)


def first_found(expressions: Sequence[str], name: str) -> int:
    """The place of the first of the owner's expressions found anywhere in `name`; their count if none is.

    Raises ConfigError for one that takes too long.
    """
    places = (place for place, expression in enumerate(expressions) if _finder(expression)(name))
    return next(places, len(expressions))


@lru_cache(maxsize=4096)
def _finder(expression: str) -> Callable[[str], bool]:
    """By backtracking: what is written for RE2 is good for whole names alone."""
    return backtracking.matcher(expression, ignore_case=True, anywhere=True)


@lru_cache(maxsize=4096)
def _owners(expression: str, *, ignore_case: bool) -> Callable[[str], bool]:
    """RE2 where it can, else by backtracking."""
    try:
        found, ascii_only = _compiled(expression, _OWNERS_BYTES, ignore_case=ignore_case)
    except Untranslatable:
        return backtracking.matcher(expression, ignore_case=ignore_case)
    if not ascii_only:
        return found
    backtracks = backtracking.matcher(expression, ignore_case=ignore_case)
    return lambda name: found(name) if name.isascii() else backtracks(name)


def _compiled(expression: str, most_bytes: int, *, ignore_case: bool) -> tuple[Callable[[str], bool], bool]:
    """RE2's matcher, and whether it agrees with Java on ASCII names alone."""
    translated = re2_text(expression, ignore_case=ignore_case)
    options = re2.Options()
    options.log_errors, options.never_capture, options.max_mem = False, True, most_bytes
    try:
        pattern = re2.compile(translated.text, options)
    except re2.error as exc:
        raise Untranslatable(f"RE2 does not take it: {exc}") from exc
    return lambda name: pattern.fullmatch(name) is not None, translated.ascii_only
