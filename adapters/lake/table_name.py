"""The name of a collection's table in a target that has tables. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.config.sinks.table_names import DATABASE, SCHEMA, TABLE, TOPIC
from engine.errors import SinkRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

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
class Naming:
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
