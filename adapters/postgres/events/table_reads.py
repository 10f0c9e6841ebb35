"""How rows of a session's tables become events: those that a window reads, and those that only a copy has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adapters.postgres.events.rows import row_expression, row_shape
from adapters.postgres.events.source_block import ReadPosition, marked_sources, read_source
from adapters.postgres.server.table import relation_of
from adapters.postgres.server.text_settings import TEXT_SETTINGS
from adapters.postgres.settings import GeneratedColumns, PostgresSettings
from adapters.verify.tables.row_reads import ComparedEvents, RowReads
from engine.events.values.row_form import RowMode
from engine.model import Target
from engine.staging.reads import ReadEvents
from engine.verify.deletes import DeleteEvents

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adapters.postgres.log_session import LogSession
    from adapters.postgres.server.table import Relation
    from adapters.postgres.snapshot.eligibility import ReadTable
    from engine.config.settings import Settings
    from engine.events.codec import TableCodec
    from engine.model import CollectionId


class TableReads:
    """The events of one session's tables."""

    def __init__(self, settings: Settings, session: LogSession) -> None:
        self._settings, self._session = settings, session

    def events(
        self, tables: Mapping[Target, ReadTable], position_of: Callable[[Target], ReadPosition], now_ms: int
    ) -> dict[Target, ReadEvents]:
        """The READ events of tables that are read now, each at its position."""
        settings, relations = self._settings.events, self._session.relations
        relations.learn_types(read.table for read in tables.values())
        found = {}
        for target, read in tables.items():
            relation, codec = self._codec(read)
            codec = codec.unmasked if target.against else codec
            shape = row_shape(relation, read.table, relations.types)
            source = read_source(settings, read.table.id, position_of(target))
            marked = marked_sources(settings, read.table.id, position_of(target))
            found[target] = ReadEvents(codec, shape, source, now_ms, marked, target.compared)
        return found

    def deletes(self, collection: CollectionId, position: ReadPosition) -> DeleteEvents:
        """How delete events of rows are written that only a copy has. Raises SourceError."""
        settings = self._settings.events
        (read,) = self._session.tables.readings([Target(collection)]).values()
        self._session.relations.learn_types([read.table])
        _relation, codec = self._codec(read)
        source = read_source(settings, collection, position)
        return DeleteEvents.of_table(codec, source, position.ts_ms, tombstones=settings.tombstones)

    def elsewhere(self, collection: CollectionId) -> RowReads:
        """How rows of a collection are read from another table with its columns. Raises SourceError."""
        (read,) = self._session.tables.readings([Target(collection)]).values()
        relations = self._session.relations
        relations.learn_types([read.table])
        relation, codec = self._codec(read)
        shape = row_shape(relation, read.table, relations.types)
        shape = replace(shape, nullable=tuple(True for _column in shape.columns))
        return RowReads(
            {column.name: (column.type, column.typmod) for column in relation.columns},
            row_expression(shape, RowMode.EXACT),
            ComparedEvents(ReadEvents(codec.unmasked, shape, "{}", 0, compared=True), RowMode.EXACT),
            {name: value for name, value in TEXT_SETTINGS.items() if name != "client_encoding"},
        )

    def _codec(self, read: ReadTable) -> tuple[Relation, TableCodec]:
        """How the rows of a table that can be read become events."""
        relations = self._session.relations
        relations.adopt(read)
        stored = self._settings.source_as(PostgresSettings).generated_columns is GeneratedColumns.STORED
        relation = relation_of(read.table, read.columns, stored=stored)
        return relation, relations.codec(relation, read.table)
