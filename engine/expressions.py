"""Debezium's lists of regular expressions, and matching names against them.

An expression uses Java's syntax. It must match the whole name and ignores the case of ASCII letters, as in
Debezium. RE2 matches it if it can, in time linear in the name. Expressions that RE2 can't handle are refused
in signals. In the configuration they run by backtracking, under a time limit.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import re2

from engine.patterns import backtracking
from engine.patterns.java import re2_text
from engine.patterns.untranslatable import Untranslatable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

LONGEST: Final = 10_000
"""The most characters in an expression. Longer ones are refused before they are compiled."""

_OWNERS_BYTES: Final = 8 << 20
_ANYBODYS_BYTES: Final = 1 << 20
"""The memory that a compiled expression may take in RE2; larger ones do not compile.

One mebibyte allows ten thousand alternatives, and takes 5 ms per name in the worst case.
"""


def split_expressions(text: str) -> tuple[str, ...]:
    """Split a list at its commas. A comma after a backslash belongs to the expression.

    Blank items are left out. Raises ValueError if the text ends in a lone backslash.
    """
    if len(text) - len(text.rstrip("\\")) & 1:
        raise ValueError("the list ends in a lone backslash")
    items = re.findall(r"(?:[^\\,]|\\.)+", text, re.DOTALL)
    return tuple(item.strip().replace("\\,", ",") for item in items if item.strip())


def checked(expression: str) -> str:
    """The owner's expression, unchanged. Raises ValueError if it is too long, wrong, or unsupported."""
    _check_length(expression)
    _owners(expression, ignore_case=True)
    return expression


def matches(expressions: Iterable[str], name: str, *, ignore_case: bool = True) -> bool:
    """Whether one of the owner's expressions matches the whole of `name`.

    Results are cached. Raises ConfigError if matching takes too long.
    """
    return any(_decided(expression, name, ignore_case) for expression in expressions)


def bounded_matcher(expression: str, *, ignore_case: bool) -> Callable[[str], bool]:
    """A matcher for an untrusted expression: whether it matches a whole name, in linear time.

    Raises ValueError with the reason if RE2 can't handle the expression. The matcher raises ValueError for a
    name on which Java and RE2 may disagree.
    """
    _check_length(expression)
    found, ascii_only = _compiled(expression, _ANYBODYS_BYTES, ignore_case=ignore_case)
    re2.purge()  # RE2 would cache a hundred of them

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
    """The index of the first of the owner's expressions found anywhere in `name`; their count if none is.

    Raises ConfigError if matching takes too long.
    """
    places = (place for place, expression in enumerate(expressions) if _finder(expression)(name))
    return next(places, len(expressions))


@lru_cache(maxsize=4096)
def _finder(expression: str) -> Callable[[str], bool]:
    """A search by backtracking, because the translation for RE2 only works for whole names."""
    return backtracking.matcher(expression, ignore_case=True, anywhere=True)


@lru_cache(maxsize=4096)
def _owners(expression: str, *, ignore_case: bool) -> Callable[[str], bool]:
    """A matcher by RE2 if possible, else by backtracking."""
    try:
        found, ascii_only = _compiled(expression, _OWNERS_BYTES, ignore_case=ignore_case)
    except Untranslatable:
        return backtracking.matcher(expression, ignore_case=ignore_case)
    if not ascii_only:
        return found
    backtracks = backtracking.matcher(expression, ignore_case=ignore_case)
    return lambda name: found(name) if name.isascii() else backtracks(name)


def _compiled(expression: str, most_bytes: int, *, ignore_case: bool) -> tuple[Callable[[str], bool], bool]:
    """RE2's matcher, and whether it agrees with Java only on ASCII names."""
    translated = re2_text(expression, ignore_case=ignore_case)
    options = re2.Options()
    options.log_errors, options.never_capture, options.max_mem = False, True, most_bytes
    try:
        pattern = re2.compile(translated.text, options)
    except re2.error as exc:
        raise Untranslatable(f"RE2 does not take it: {exc}") from exc
    return lambda name: pattern.fullmatch(name) is not None, translated.ascii_only
