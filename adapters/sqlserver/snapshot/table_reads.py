"""How rows of tables become events: those that a window reads, and those that only a copy has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.sqlserver.events.source_block import ReadPosition, marked_sources, read_source
from adapters.sqlserver.server.rows import row_shape
from adapters.verify.tables.row_reads import ComparedEvents
from engine.events.record.envelope import PLAIN
from engine.events.values.row_form import RowMode
from engine.model import Target
from engine.staging.reads import ReadEvents
from engine.verify.deletes import DeleteEvents

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adapters.sqlserver.databases import Databases
    from adapters.sqlserver.events.codecs import Codecs
    from adapters.sqlserver.server.table import Column, Table
    from adapters.sqlserver.snapshot.eligibility import ReadTable
    from adapters.sqlserver.snapshot.initial import InitialReads
    from adapters.sqlserver.snapshot.tables import SqlServerTables
    from engine.clock import Clock
    from engine.events.codec import TableCodec
    from engine.events.settings import EventSettings
    from engine.model import CollectionId


@dataclass(frozen=True, slots=True)
class RowReads:
    """The way of a collection's rows from another table with its columns.

    `lost` are columns for which events have NULL whatever the other table has.
    """

    table: Table
    lost: frozenset[str]
    compared: ComparedEvents


class TableReads:
    """The events of the tables of a source. Used by the job's thread alone."""

    def __init__(
        self,
        settings: EventSettings,
        databases: Databases,
        codecs: Codecs,
        tables: SqlServerTables,
        initial: InitialReads,
        clock: Clock,
    ) -> None:
        self._settings, self._databases, self._codecs = settings, databases, codecs
        self._tables, self._initial, self._clock = tables, initial, clock

    def events(self, target: Target, read: ReadTable, merge: tuple[str, ...]) -> ReadEvents:
        """The READ events of a table that is read now."""
        now_ms, name = self._clock.now_ms, target.collection.parts[0]
        position = self._databases.position(name)
        if target.initial:
            position = self._initial.position(name) or position
        at = ReadPosition(
            now_ms,
            position.commit,
            None if position.whole or target.as_initial else position.change,
            snapshot=PLAIN if target.as_initial else "incremental",
        )
        source = read_source(self._settings, target.collection, at)
        marked = marked_sources(self._settings, target.collection, at)
        codec = self._codecs.codec(read.table, merge)
        codec = codec.unmasked if target.against else codec
        return ReadEvents(codec, row_shape(read.table), source, now_ms, marked, target.compared)

    def deletes(self, collection: CollectionId) -> DeleteEvents:
        """How delete events of rows are written that only a copy has. Raises SourceError."""
        now_ms = self._clock.now_ms
        _read, codec = self._read(collection)
        position = self._databases.position(collection.parts[0])
        at = ReadPosition(
            now_ms, position.commit, None if position.whole else position.change, snapshot="incremental"
        )
        source = read_source(self._settings, collection, at)
        return DeleteEvents.of_table(codec, source, now_ms, tombstones=self._settings.tombstones)

    def elsewhere(self, collection: CollectionId) -> RowReads:
        """How rows of a collection are read from another table with its columns. Raises SourceError."""
        read, codec = self._read(collection)
        events = ReadEvents(codec.unmasked, row_shape(read.table), "{}", 0, compared=True)
        lost = {column.name for column in read.columns if column.computed}
        lost |= {column.name for column in read.missing}
        return RowReads(read.table, frozenset(lost), ComparedEvents(events, RowMode.ESCAPED))

    def _read(self, collection: CollectionId) -> tuple[ReadTable, TableCodec]:
        (read,) = self._tables.readings([Target(collection)]).values()
        return read, self._codecs.codec(read.table, merge_columns([read])[collection])


def merge_columns(reads: Iterable[ReadTable]) -> dict[CollectionId, tuple[str, ...]]:
    """The columns that match rows to changes, for each table of a window.

    A table without a key that is read by several surrogate keys has the columns of all of them, since its
    changes are matched once for all. Large values, which old rows of the log may lack, count only if there
    are no other columns.
    """
    found: dict[CollectionId, dict[str, Column]] = {}
    for read in reads:
        found.setdefault(read.table.id, {}).update({column.name: column for column in read.merge.columns})
    return {
        table: tuple(name for name, column in columns.items() if not column.large) or tuple(columns)
        for table, columns in found.items()
    }
