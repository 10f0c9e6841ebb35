"""Tracks the table shapes that the stream has emitted, and finds what changes in a span.

Owns the shapes already emitted as events and recorded in the schema history, and their saved form.
`table_schemas.py` defines what a shape is, and when two are the same.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from adapters.source.log.table_faults import noting_faults
from adapters.sqlserver.events.schema_changes import ChangeType, SchemaChange
from adapters.sqlserver.events.source_block import ReadPosition
from adapters.sqlserver.schema import table_schemas
from adapters.sqlserver.server.position import after_lsn
from engine.errors import SignalError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapters.sqlserver.databases import Databases
    from adapters.sqlserver.events.codecs import Codecs
    from adapters.sqlserver.log.capture_instances import Instances
    from adapters.sqlserver.log.reader import LogSlice
    from adapters.sqlserver.schema.history import History
    from adapters.sqlserver.schema.stated import StatedTable
    from adapters.sqlserver.schema.table_schemas import Shapes
    from adapters.sqlserver.server.position import LogPosition
    from adapters.sqlserver.server.table import Table
    from engine.clock import Clock
    from engine.model import CollectionId

_log = logging.getLogger("adapters")


class SchemaTracker:
    """Finds changes of the tables' shapes. Used by the job's thread alone."""

    def __init__(self, databases: Databases, codecs: Codecs, history: History | None, clock: Clock) -> None:
        self._databases, self._codecs, self._history, self._clock = databases, codecs, history, clock
        self._shapes: Shapes = {}

    def recover(
        self, saved: Sequence[Mapping[str, Any]] | None, positions: Mapping[str, LogPosition]
    ) -> None:
        """Restore the shapes at the databases' positions: from the state, else from the history."""
        if saved is not None:
            self._shapes = table_schemas.from_json(saved)
        elif self._history is not None:
            self._shapes = self._history.recover(positions)
        else:
            self._shapes = {}

    @property
    def shapes(self) -> Shapes:
        """The shapes that were emitted last."""
        return self._shapes

    def memory(self) -> list[dict[str, Any]]:
        """Encode for the state."""
        return table_schemas.to_json(self._shapes)

    def record_changes(
        self, database: str, before: LogPosition, taken: LogSlice, kind: str
    ) -> list[SchemaChange]:
        """Find and record the shape changes of a database in a span, to be emitted with its events.

        `kind` is the value of their `snapshot` field.
        """
        if not taken.changed and not _begins(taken.instances, before, taken.end):
            return []
        known = {name: table for name, table in self._shapes.items() if name.parts[0] == database}
        found = taken.instances.at(before) | taken.instances.at(taken.end)
        now_ms = self._clock.now_ms
        made = []
        for table in table_schemas.changed_tables(known, found):
            position = ReadPosition(now_ms, taken.instances.since(table.id, before), snapshot=kind)
            made.append(table_schemas.change(known, table, position, now_ms))
            self._warn(table)
        position = ReadPosition(now_ms, taken.end.commit, snapshot=kind)
        missing = [name for name in known if name not in found]
        # A table that still exists is merely no longer captured.
        gone = table_schemas.dropped_tables(
            {name: known[name] for name in missing}, self._databases.listed(database) if missing else ()
        )
        made += [SchemaChange(ChangeType.DROP, table, position, now_ms) for table in gone]
        self._record(made)
        return made

    def record_stated(
        self, tables: Sequence[StatedTable], positions: Mapping[str, LogPosition]
    ) -> list[SchemaChange]:
        """Record the changes that a signal states, at the databases' positions; returns them.

        The next comparison with the server's catalog takes back what is not so.
        Raises SignalError for the drop of a table that was never emitted.
        """
        now_ms = self._clock.now_ms
        made = []
        for stated in tables:
            table = stated.table or self._shapes.get(stated.collection)
            if table is None:
                raise SignalError(f"nothing is known of {stated.collection}, which the signal drops")
            position = ReadPosition(now_ms, positions[stated.collection.parts[0]].commit, snapshot="false")
            made.append(SchemaChange(stated.type, table, position, now_ms))
        self._record(made)
        return made

    def _warn(self, table: Table) -> None:
        """Log what the table's events lack. A fault of its codec is found again when its rows are decoded."""
        faults: dict[CollectionId, str] = {}
        with noting_faults(faults, table.id):
            for warning in self._codecs.codec(table).warnings:
                _log.warning("%s: %s", table.id, warning)
        for fault in faults.values():
            _log.warning("%s: %s", table.id, fault)

    def _record(self, made: Sequence[SchemaChange]) -> None:
        if not made:
            return
        if self._history is not None:
            self._history.record(made)
        gone = {change.table.id for change in made if change.type is ChangeType.DROP}
        self._shapes = {**self._shapes, **{change.table.id: change.table for change in made}}
        self._shapes = {name: table for name, table in self._shapes.items() if name not in gone}


def _begins(instances: Instances, before: LogPosition, end: LogPosition) -> bool:
    """Whether an instance takes over in a span, that is, once all before its start has been streamed."""
    return any(before.commit <= capture.start <= after_lsn(end.commit) for capture in instances.captures)
