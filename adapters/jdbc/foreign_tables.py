"""The tables of a PostgreSQL database that somebody else keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adapters.jdbc.connection import Target
from adapters.jdbc.foreign_rows import ForeignRows
from adapters.lake.table_name import CollectionTables, TableNaming

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.verify.tables.row_reads import RowReads
    from engine.config.sinks.postgres_target import PostgresTarget
    from engine.model import CollectionId

_LONGEST: Final = 63
"""Bytes of a name; PostgreSQL cuts longer ones."""


class JdbcTables:
    """Implements `ForeignTables`. `reads` says how a collection's rows are read.

    `source` is the source's database, for collections whose names don't have it. `markers` is the topic of a
    collection of markers, with that collection.
    """

    def __init__(
        self,
        database: PostgresTarget,
        reads: Callable[[CollectionId], RowReads],
        source: str,
        markers: tuple[str, CollectionId] | None = None,
    ) -> None:
        self._database, self._reads, self._markers = database, reads, markers
        self._names = CollectionTables(
            TableNaming(database.table_format, "its collection.name.format", _LONGEST), source
        )

    def check(self, topic: str, collection: CollectionId) -> None:
        """Raise SinkError if the table can't have a name."""
        self._names.of(topic, collection)

    def table(self, topic: str, collection: CollectionId, owner: str) -> ForeignRows:
        """The table of a topic with this collection's events."""
        target = Target(self._database, owner)
        markers = None if self._markers is None else self._names.of(*self._markers)
        return ForeignRows(target, self._names.of(topic, collection), self._reads(collection), markers)
