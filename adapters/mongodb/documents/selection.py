"""`field.exclude.list` and `field.renames`: which fields documents have, and under which names.

A rule names a database, a collection (`*` matches any text) and a path, which also leads through documents in
arrays. Rules edit trees (`extended_json.tree`) in the order of the settings, exclusions first. A renamed
field moves to the end of its document.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.expressions import matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from adapters.mongodb.documents.extended_json import Tree
    from engine.model import CollectionId


@dataclass(frozen=True, slots=True)
class FieldRule:
    """One entry of a list: removes the field at `path` in matching collections, or renames it to `name`."""

    database: str
    collection: str
    path: tuple[str, ...]
    name: str | None = None

    def applies(self, collection: CollectionId) -> bool:
        """Whether the rule applies to this collection."""
        pattern = r"\.".join(
            re.escape(part).replace(r"\*", ".*") for part in (self.database, self.collection)
        )
        return matches((pattern,), str(collection))

    def edit(self, document: dict[str, Tree]) -> None:
        """Edit a document."""
        self._edit(document, self.path)

    def _edit(self, document: dict[str, Tree], path: tuple[str, ...]) -> None:
        name, *rest = path
        if name not in document:
            return
        if rest:
            self._edit_within(document[name], tuple(rest))
            return
        value = document.pop(name)
        if self.name is not None:
            document[self.name] = value

    def _edit_within(self, value: Tree, path: tuple[str, ...]) -> None:
        if isinstance(value, list):
            for nested in value:
                self._edit_within(nested, path)
        elif isinstance(value, dict):
            self._edit(value, path)

    def edit_dotted(self, updated: dict[str, Tree]) -> None:
        """Edit updated fields, whose names are paths."""
        renamed: dict[str, Tree] = {}
        for dotted in list(updated):
            readings = list(_readings(dotted.split("."), self.path))
            place = _place(readings)
            if place is None:
                for _parts, rest in readings:
                    self._edit_within(updated[dotted], rest)
                continue
            name, value = self._named(dotted, place), updated.pop(dotted)
            if name is not None:
                renamed[name] = value
        updated.update(renamed)

    def edited_name(self, dotted: str) -> str | None:
        """The new name of a removed field or truncated array; None if it is excluded."""
        place = _place(_readings(dotted.split("."), self.path))
        return dotted if place is None else self._named(dotted, place)

    def _named(self, dotted: str, place: int) -> str | None:
        """The new name of a field whose part at `place` is the rule's field; None if it is excluded."""
        if self.name is None:
            return None
        parts = dotted.split(".")
        parts[place] = self.name
        return ".".join(parts)


@dataclass(frozen=True, slots=True)
class FieldRules:
    """The rules of one collection, in order."""

    rules: tuple[FieldRule, ...] = ()

    def of(self, collection: CollectionId) -> FieldRules:
        """The rules that apply to a collection."""
        return FieldRules(tuple(rule for rule in self.rules if rule.applies(collection)))

    def edit(self, document: dict[str, Tree]) -> dict[str, Tree]:
        """The document, edited."""
        for rule in self.rules:
            rule.edit(document)
        return document

    def edit_dotted(self, updated: dict[str, Tree]) -> dict[str, Tree]:
        """The updated fields, edited."""
        for rule in self.rules:
            rule.edit_dotted(updated)
        return updated

    def edited_names(self, names: Iterable[str]) -> dict[str, str]:
        """The names that remain, each with its new name."""
        found: dict[str, str] = {}
        for name in names:
            new: str | None = name
            for rule in self.rules:
                new = rule.edited_name(new) if new is not None else None
            if new is not None:
                found[name] = new
        return found


def _place(readings: Iterable[tuple[int, tuple[str, ...]]]) -> int | None:
    """Which part of a dotted name is the rule's field, by its readings; None if it is no such field."""
    return next((parts - 1 for parts, rest in readings if not rest), None)


def _readings(
    dotted: Sequence[str], path: tuple[str, ...], at: int = 0
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The ways to read a dotted name, from part `at` on, as a path's beginning or as something below it.

    Gives the number of parts read, and the rest of the path. A number, unless it is the first part, may be an
    array's index, which paths don't have, or a field's name. An update does not tell which, so both are
    given, names first.
    """
    if not path or at == len(dotted):
        yield at, path
        return
    if dotted[at] == path[0]:
        yield from _readings(dotted, path[1:], at + 1)
    if at and _is_index(dotted[at]):
        yield from _readings(dotted, path, at + 1)


def _is_index(part: str) -> bool:
    return part.isascii() and part.isdigit()
