"""`field.exclude.list` and `field.renames`: which fields documents have, and under which names.

A rule names a database, a collection (`*` matches any text) and a path, which also leads through documents in
arrays. Rules edit trees (`extended_json.tree`) in the order of the settings, exclusions first. A renamed
field moves to the end of its document.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.expressions import matches

if TYPE_CHECKING:
    from collections.abc import Iterable

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
        inner = value if isinstance(value, list) else [value]
        for nested in inner:
            if isinstance(nested, dict):
                self._edit(nested, path)

    def edit_dotted(self, updated: dict[str, Tree]) -> None:
        """Edit updated fields, whose names are paths."""
        renamed: dict[str, Tree] = {}
        for dotted in list(updated):
            path = _without_indexes(dotted)
            if len(path) < len(self.path) and self.path[: len(path)] == path:
                self._edit_within(updated[dotted], self.path[len(path) :])
            elif path[: len(self.path)] == self.path:
                value = updated.pop(dotted)
                if self.name is not None:
                    renamed[self._renamed(dotted)] = value
        updated.update(renamed)

    def edited_name(self, dotted: str) -> str | None:
        """The new name of a removed field or truncated array; None if it is excluded."""
        if _without_indexes(dotted)[: len(self.path)] != self.path:
            return dotted
        return None if self.name is None else self._renamed(dotted)

    def _renamed(self, dotted: str) -> str:
        """The name with the path's last part replaced. Array indexes are skipped."""
        parts, left = dotted.split("."), len(self.path)
        indexed = len(_without_indexes(dotted)) < len(parts)
        for at, part in enumerate(parts):
            left -= not (indexed and at and _is_index(part))
            if left == 0:
                parts[at] = self.name or part
                break
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


def _without_indexes(dotted: str) -> tuple[str, ...]:
    """The path without array indexes.

    Arrays directly inside arrays are not supported, and left as they are.
    """
    parts = dotted.split(".")
    if any(_is_index(name) and _is_index(next_name) for name, next_name in itertools.pairwise(parts)):
        return tuple(parts)
    return tuple(part for at, part in enumerate(parts) if at == 0 or not _is_index(part))


def _is_index(part: str) -> bool:
    return part.isascii() and part.isdigit()
