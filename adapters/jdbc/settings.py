"""The settings of the sink `jdbc`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.config.sinks.settings import SchemaEvolution, TopicRecreated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.config.sinks.postgres_target import PostgresTarget


@dataclass(frozen=True, slots=True)
class JdbcSettings:
    """Its database, and what it does with tables that lack something or were recreated."""

    database: PostgresTarget
    evolution: SchemaEvolution = SchemaEvolution.BASIC
    recreated: TopicRecreated = TopicRecreated.WARN

    @property
    def shown(self) -> str:
        """The sink and its database, for people."""
        return f"jdbc, tables in {self.database.address}"

    def datasets(self, _topics: Iterable[str], /) -> list[tuple[str, str]]:
        """The database."""
        server, _slash, database = self.database.address.rpartition("/")
        return [(f"postgres://{server}", database)]
