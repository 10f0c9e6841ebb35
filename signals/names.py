"""Which collections a text of `data-collections` names.

Owns the two ways of naming: a regular expression that must match the whole of `schema.table`, and
a quoted name (`"public"."My.Table"`) that is taken literally. What is done with the collections is
decided elsewhere.

Expressions are Java's, as `engine.expressions` reads them. Matching is RE2's work, which Arrow
carries and which takes time linear in the name, so that no signal can hold the job up. What RE2
can't say (look-around, back-references) is left to Python's engine, with so few repetitions that
backtracking stays short.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import SignalError
from engine.expressions import translate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.model import CollectionId

MAX_BACKTRACKING_REPEATS: Final = 4
"""Repetitions allowed in a pattern that must be matched by backtracking: time grows as name^n."""

_PART: Final = re.compile(r'"((?:[^"]|"")+)"|([\w$-]+)')
_IGNORE_CASE: Final = re.compile(r"\(\?[a-zA-Z]*i")
_SUGGEST_FROM: Final = 2_000


@dataclass(frozen=True, slots=True)
class Match:
    """The collections that a text names, in the order known, and what the operator should hear."""

    collections: tuple[CollectionId, ...]
    note: str = ""


def match_names(pattern: str, known: Sequence[CollectionId]) -> Match:
    """Find the collections that `pattern` names; none is a Match without collections.

    Case counts first, as in Debezium; a pattern that names nothing that way is tried again with
    case ignored, and the note says so. Raises SignalError for a pattern that can't be read.
    """
    parts = quoted_parts(pattern)
    if parts is not None:
        return Match(tuple(one for one in known if one.parts == parts))
    names = [str(one) for one in known]
    literal = _selected(known, [name == pattern for name in names])
    try:
        text = _readable(pattern)
    except SignalError:
        if literal:
            return Match(literal)
        raise
    exact = _selected(known, _find(text, names, ignore_case=False)) or literal
    wanted_loose = _IGNORE_CASE.search(pattern) is not None
    if exact and not wanted_loose:
        return Match(exact)
    loose = _selected(known, _find(text, names, ignore_case=True))
    if not loose or wanted_loose:
        return Match(loose or exact)
    return Match(loose, f"{shown(pattern)} matches only when letter case is ignored")


def quoted_parts(text: str) -> tuple[str, ...] | None:
    """The parts of a name of which at least one is quoted, or None where `text` is no such name.

    Inside quotes a doubled quote stands for one; a part without quotes must be a plain word.
    """
    if '"' not in text:
        return None
    parts: list[str] = []
    at = 0
    while part := _PART.match(text, at):
        quoted, plain = part.groups()
        parts.append(plain if quoted is None else quoted.replace('""', '"'))
        at = part.end()
        if at == len(text):
            return tuple(parts)
        if text[at] != ".":
            return None
        at += 1
    return None


def suggestion(pattern: str, known: Sequence[CollectionId]) -> str:
    """The known name most like `pattern`, or an empty string; long inputs are not compared."""
    if len(pattern) > 200:
        return ""
    wanted = pattern.replace("\\", "").replace('"', "")
    names = {str(one).lower(): str(one) for one in known[:_SUGGEST_FROM]}
    near = difflib.get_close_matches(wanted.lower(), names, n=1, cutoff=0.75)
    return names[near[0]] if near else ""


def _selected(known: Sequence[CollectionId], truths: list[bool]) -> tuple[CollectionId, ...]:
    return tuple(one for one, true in zip(known, truths, strict=True) if true)


def _readable(pattern: str) -> str:
    try:
        return translate(pattern)
    except ValueError as exc:
        raise SignalError(f"the pattern {shown(pattern)} can't be read: {exc}") from exc


def _find(text: str, names: list[str], *, ignore_case: bool) -> list[bool]:
    """Whether the expression, in Python's syntax, matches the whole of each name."""
    try:
        column = pa.array(names, pa.string())
        found = pc.match_substring_regex(column, rf"\A(?:{text})\z", ignore_case=ignore_case)
    except pa.ArrowInvalid:
        _refuse_slow(text)
        compiled = re.compile(text, re.ASCII | (re.IGNORECASE if ignore_case else 0))
        return [compiled.fullmatch(name) is not None for name in names]
    truths: list[bool] = found.to_pylist()
    return truths


def _refuse_slow(pattern: str) -> None:
    bare = re.sub(r"\\.|\[\^?\]?[^\]]*\]", "x", pattern, flags=re.DOTALL)
    repeats = re.findall(r"[*+?{]", bare.replace("(?", "("))
    if re.search(r"\)[*+{]", bare) or len(repeats) > MAX_BACKTRACKING_REPEATS:
        message = f"the pattern {shown(pattern)} could take too long to match"
        raise SignalError(
            message,
            hint=f"with look-around or back-references, repeat no group and use at most "
            f"{MAX_BACKTRACKING_REPEATS} repetitions",
        )


def shown(text: str) -> str:
    """A text from a signal, quoted for an answer and cut where it is long."""
    return repr(text if len(text) <= 80 else text[:80] + "…")
