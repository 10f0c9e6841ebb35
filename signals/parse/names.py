"""Which collections an item of `data-collections` names.

An item is a regular expression that must match the whole of `schema.table`, or a quoted name
(`"public"."My.Table"`) that is taken literally. A name may stand for a group of collections, as a partitioned
table's does for its partitions.

Expressions use Java's syntax. Only RE2 matches them, which never backtracks. Constructs that RE2 lacks are
refused by name, so no signal can hold the job up.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from engine.errors import SignalError
from signals.parse.kinds import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from engine.model import CollectionId

    Groups = Mapping[CollectionId, Sequence[CollectionId]]

_PART: Final = re.compile(r'"((?:[^"]|"")+)"|([\w$-]+)')
_IGNORE_CASE: Final = re.compile(r"\(\?[a-zA-Z]*i")
_PLAIN: Final = re.compile(r"(?:[\w$-]|\\?\.)+", re.ASCII)
"""An expression of letters and dots, like most names."""
_SUGGEST_FROM: Final = 2_000


@dataclass(frozen=True, slots=True)
class Match:
    """The collections and groups that an item names, in `KnownNames`'s order, and a note for the operator."""

    collections: tuple[CollectionId, ...]
    note: str = ""


class Matcher(Protocol):
    """`engine.expressions.bounded_matcher`, or what compiles like it."""

    def __call__(self, expression: str, /, *, ignore_case: bool) -> Callable[[str], bool]:
        """Tell whether the expression matches a whole name. Raises ValueError if it can't be read."""


class KnownNames:
    """The collections and groups that may be named, each once, indexed by name.

    `matcher` compiles an expression. `check` is called now and then while they are searched, and may raise.
    `groups` are names that stand for other collections; `members` replaces them.
    """

    def __init__(
        self,
        collections: Iterable[CollectionId],
        matcher: Matcher,
        check: Callable[[], None] = lambda: None,
        groups: Groups = MappingProxyType({}),
    ) -> None:
        self.collections = tuple(dict.fromkeys((*collections, *groups)))
        self._groups = groups
        self._matcher, self.check = matcher, check
        self._names = [str(collection) for collection in self.collections]
        self._by_parts = {collection.parts: collection for collection in self.collections}
        self._by_length: dict[int, list[int]] = {}
        self._by_end: dict[tuple[int, int, bool], dict[str, list[tuple[int, str]]]] = {}
        self._by_name: dict[str, list[int]] = {}
        for index, name in enumerate(self._names):
            self._by_name.setdefault(name, []).append(index)
            self._by_length.setdefault(len(name), []).append(index)

    def among(self, collections: Iterable[CollectionId]) -> KnownNames:
        """Some of them, matched and searched alike."""
        names = tuple(collections)
        groups = {name: self._groups[name] for name in names if name in self._groups}
        return KnownNames(names, self._matcher, self.check, groups)

    def members(self, names: Iterable[CollectionId]) -> tuple[CollectionId, ...]:
        """The collections that these names stand for, each once."""
        members = (collection for name in names for collection in self._groups.get(name, (name,)))
        return tuple(dict.fromkeys(members))

    def called(self, parts: tuple[str, ...]) -> tuple[CollectionId, ...]:
        """The collection whose name has exactly these parts."""
        return (self._by_parts[parts],) if parts in self._by_parts else ()

    def named(self, name: str) -> tuple[CollectionId, ...]:
        """The collections with exactly this name."""
        indexes = self._by_name.get(name, ())
        return tuple(self.collections[index] for index in indexes)

    def matched(self, pattern: str, *, ignore_case: bool) -> tuple[CollectionId, ...]:
        """The collections whose name an expression matches. Raises ValueError if it can't be read."""
        if _PLAIN.fullmatch(pattern):
            return self._spelled(pattern, ignore_case=ignore_case)
        matches = self._matcher(pattern, ignore_case=ignore_case)
        found = []
        for index, name in enumerate(self._names):
            if not index % 16:
                self.check()
            if matches(name):
                found.append(self.collections[index])
        return tuple(found)

    def _spelled(self, pattern: str, *, ignore_case: bool) -> tuple[CollectionId, ...]:
        """`matched` for an expression of letters and dots: tests only names of the same length and ending."""
        self.check()
        signs = pattern.replace(r"\.", "\0")
        start = signs.rfind(".") + 1
        wanted = _folded(signs.replace("\0", "."), ignore_case=ignore_case)
        fixed = [index for index, sign in enumerate(signs[:start]) if sign != "."]
        loose = [index for index, sign in enumerate(signs[:start]) if sign == "."]
        found = []
        for index, name in self._ending(len(signs), start, wanted[start:], ignore_case=ignore_case):
            if all(name[at] == wanted[at] for at in fixed) and not any(
                name[at] in _LINE_ENDS for at in loose
            ):
                found.append(self.collections[index])
        return tuple(found)

    def _ending(self, length: int, start: int, end: str, *, ignore_case: bool) -> Sequence[tuple[int, str]]:
        """The names of this length that have the text `end` from `start` on, with their indexes."""
        shape = (length, start, ignore_case)
        if shape not in self._by_end:
            ends: dict[str, list[tuple[int, str]]] = {}
            for index in self._by_length.get(length, ()):
                name = _folded(self._names[index], ignore_case=ignore_case)
                ends.setdefault(name[start:], []).append((index, name))
            self._by_end[shape] = ends
        return self._by_end[shape].get(end, ())

    def like(self, text: str) -> str:
        """The name most similar to a text, or an empty string. Long texts are not compared."""
        if len(text) > 200:
            return ""
        self.check()
        wanted = text.replace("\\", "").replace('"', "")
        names = {name.lower(): name for name in self._names[:_SUGGEST_FROM]}
        similar = difflib.get_close_matches(wanted.lower(), names, n=1, cutoff=0.75)
        return names[similar[0]] if similar else ""


_LINE_ENDS: Final = frozenset("\n\r\x85\u2028\u2029")


_TO_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def _folded(text: str, *, ignore_case: bool) -> str:
    """The text with ASCII letters in lower case, if case is ignored."""
    return text.translate(_TO_LOWER) if ignore_case else text


def match_names(pattern: str, known: KnownNames) -> Match:
    """Find the collections that `pattern` names. If there are none, the Match has no collections.

    Case counts first, as in Debezium. A pattern that matches nothing is tried again with case ignored; the
    note then says so. Raises SignalError for a pattern that can't be read.
    """
    parts = quoted_parts(pattern)
    if parts is not None:
        return Match(known.called(parts))
    literal = known.named(pattern)
    try:
        exact = known.matched(pattern, ignore_case=False) or literal
        wanted_loose = _IGNORE_CASE.search(pattern) is not None
        if exact and not wanted_loose:
            return Match(exact)
        loose = known.matched(pattern, ignore_case=True)
    except ValueError as exc:
        if literal:
            return Match(literal)
        raise SignalError(f"the pattern {shown(pattern)} can't be read: {exc}") from exc
    if not loose or wanted_loose:
        return Match(loose or exact)
    return Match(loose, f"{shown(pattern)} matches only when letter case is ignored")


def quoted_parts(text: str) -> tuple[str, ...] | None:
    """The parts of a name with at least one quoted part, or None if `text` is no such name.

    Inside quotes a doubled quote stands for one quote. A part without quotes must be a plain word.
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
