"""The name of a collection's table in a target that has tables. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.config.sinks.table_names import DATABASE, SCHEMA, TABLE, TOPIC
from engine.errors import SinkRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.model import CollectionId

_DOTS: Final = re.compile(r"\.(?![^{}]*\})")
"""The dots of a pattern that are in no variable's name."""


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table's schema, empty for the target's own first one, and its name."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


@dataclass(frozen=True, slots=True)
class TableNaming:
    """How tables are named: by a pattern of `setting`. No part of a name has more than `longest` bytes."""

    pattern: str
    setting: str
    longest: int

    def table(self, topic: str, source: Mapping[str, str | None]) -> TableName:
        """The table of a topic's events. `source` has the `db`, `schema` and `table` of their source blocks.

        Raises SinkRefused if the events lack what the name needs, or if it is too long.
        """
        given = {
            TOPIC: topic.replace(".", "_"),
            DATABASE: source.get("db"),
            SCHEMA: source.get("schema"),
            TABLE: source.get("table") or source.get("collection"),
        }
        parts = [self._filled(part, given) for part in _DOTS.split(self.pattern)]
        return TableName(parts[0] if len(parts) > 1 else "", parts[-1])

    def _filled(self, part: str, given: Mapping[str, str | None]) -> str:
        for variable, value in given.items():
            if variable in part:
                if not value:
                    raise SinkRefused(f"its events have no {variable}, of which its table's name is made")
                part = part.replace(variable, value)
        if len(part.encode()) > self.longest:
            raise SinkRefused(
                f"the name {part!r} has more than {self.longest} bytes", hint=f"set {self.setting}"
            )
        return part


@dataclass(frozen=True, slots=True)
class CollectionTables:
    """The tables of collections. `database` is the source's, for collections whose names don't have it."""

    naming: TableNaming
    database: str

    def of(self, topic: str, collection: CollectionId) -> TableName:
        """The table of a topic with this collection's events. Raises SinkRefused as `table` does."""
        database = self.database or collection.parts[0]
        source = {"db": database, "schema": collection.parts[-2], "table": collection.parts[-1]}
        return self.naming.table(topic, source)

    def unshared(self, topic: str, captured: Mapping[str, CollectionId]) -> TableName:
        """The same for a topic among those of `captured`.

        Raises SinkRefused, too, if another topic's table has the same name.
        """
        name = self.of(topic, captured[topic])
        if name in [self.of(other, captured[other]) for other in captured if other != topic]:
            raise SinkRefused(f"its table {name} has the rows of other collections, too")
        return name
