"""What lists of tables select: those whose changes become events, and how an initial snapshot reads them.

Expressions use Java's syntax.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.expressions import matches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.model import CollectionId


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """Which tables' changes become events. An empty include list includes everything."""

    include_schemas: tuple[str, ...] = ()
    exclude_schemas: tuple[str, ...] = ()
    include_tables: tuple[str, ...] = ()
    exclude_tables: tuple[str, ...] = ()

    def captures(self, schema: str, table: str) -> bool:
        """Apply the schema lists to `schema` and the table lists to `schema.table`.

        The caller handles system schemas and the exception for the signal table.
        """
        return _selected(schema, self.include_schemas, self.exclude_schemas) and _selected(
            f"{schema}.{table}", self.include_tables, self.exclude_tables
        )


def _selected(name: str, include: tuple[str, ...], exclude: tuple[str, ...]) -> bool:
    return matches(include, name) if include else not matches(exclude, name)


def is_included(listed: Sequence[str], collection: CollectionId, within: str = "") -> bool:
    """Whether `snapshot.include.collection.list` lets the initial snapshot read a collection.

    The list may also name it after what it is `within`, as after a replica set.
    """
    longer = (f"{within}.{collection}",) if within else ()
    return not listed or any(matches(listed, name) for name in (*listed_names(collection), *longer))


def select_for(selects: Mapping[str, str], collection: CollectionId) -> str | None:
    """The SELECT by which the initial snapshot reads a table, if the settings have one."""
    return next(filter(None, map(selects.get, listed_names(collection))), None)


def listed_names(collection: CollectionId) -> tuple[str, ...]:
    """The names that a list may give a collection: the whole one, and the one without its database."""
    short = (".".join(collection.parts[1:]),) if collection.database else ()
    return (str(collection), *short)
