"""Makes the events of spans, and keeps what must survive from one span to the next.

That is each database's open transaction, whose events are counted, and the table shapes already told, which
`schema/tracker.py` keeps. Open windows learn what is streamed. Used by the job's thread alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from adapters.source.log.open_transaction import from_json, to_json
from adapters.source.log.span_encoder import EncodePart
from adapters.source.log.table_faults import encode_without_faults
from adapters.sqlserver.events.codec import listed_name
from adapters.sqlserver.events.dead_letters import rows_of
from adapters.sqlserver.events.decode import Rules
from adapters.sqlserver.events.schema_changes import ChangeType, schema_changes
from adapters.sqlserver.events.span_encoder import DecodePart, PartContext, encode_parts
from adapters.sqlserver.log.changes import NOTHING
from adapters.sqlserver.log.span_planner import completed
from adapters.sqlserver.log.span_reader import forget
from adapters.sqlserver.schema.stated import stated_tables
from adapters.sqlserver.schema.table_schemas import alike, filled_columns
from adapters.sqlserver.schema.tracker import SchemaTracker
from adapters.sqlserver.settings import SqlServerSettings
from engine.config.settings import NewCollections
from engine.errors import SignalError, SourceError
from engine.events.counts import sum_counts
from engine.events.record.envelope import PLAIN
from engine.events.record.shaping import is_included
from engine.isolation.incomplete import Cause, Incomplete, Letters, undecodable
from engine.model import Arrival
from engine.ports.source import EncodingResult, SourceNotice
from engine.snapshot.merge import SupersededKeys

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pyarrow as pa

    from adapters.source.log.open_transaction import OpenTransaction
    from adapters.sqlserver.databases import Databases
    from adapters.sqlserver.events.codecs import Codecs
    from adapters.sqlserver.events.decode import DecodedPart
    from adapters.sqlserver.events.schema_changes import SchemaChange
    from adapters.sqlserver.log.capture_instances import Instances
    from adapters.sqlserver.log.reader import LogSlice, Span
    from adapters.sqlserver.saved import SavedTable, StreamedMemory
    from adapters.sqlserver.server.position import LogPosition
    from adapters.sqlserver.server.table import Table
    from adapters.sqlserver.snapshot.windows import OpenWindows
    from adapters.sqlserver.tools import SourceTools
    from engine.config.settings import Settings
    from engine.model import CollectionId
    from engine.ports.sink import PartWriter
    from signals.actions import ReceivedSignal


class StreamedSpans:
    """The spans streamed so far, as far as the next one depends on them."""

    def __init__(
        self,
        settings: Settings,
        databases: Databases,
        codecs: Codecs,
        tools: SourceTools,
        windows: OpenWindows,
    ) -> None:
        self._settings, self._databases, self._codecs = settings, databases, codecs
        self._tools, self._windows = tools, windows
        self._tracker = SchemaTracker(databases, codecs, tools.history, tools.clock)
        self._open: dict[str, OpenTransaction | None] = {}
        self._announced = 0
        self._appeared: list[Arrival] = []
        self._stated: list[SchemaChange] = []

    def resume(self, memory: Mapping[str, Any], positions: Mapping[str, LogPosition], announced: int) -> None:
        """Go on from a saved state, at these positions. The first `announced` spans only report shapes."""
        left = memory.get("transactions", {})
        self._open = {name: from_json(left.get(name)) for name in positions}
        self._tracker.recover(memory.get("shapes"), positions)
        self._announced = announced
        self._stated = []

    @property
    def announcing(self) -> bool:
        """Whether spans are still to come that report the shapes found when the log was opened."""
        return self._announced > 0

    @property
    def streamed(self) -> Collection[CollectionId]:
        """The tables whose shapes were told, so whose changes were streamed."""
        return self._tracker.shapes.keys()

    def memory(self) -> StreamedMemory:
        """Open transactions and shapes, as the state keeps them."""
        return {
            "transactions": {name: to_json(transaction) for name, transaction in self._open.items()},
            "shapes": cast("list[SavedTable]", self._tracker.memory()),
        }

    def encode(
        self,
        span: Span,
        writer: PartWriter,
        aside: Collection[CollectionId],
    ) -> EncodingResult:
        """Encode a span into the writer, and return what it supersedes."""
        name, taken = self._databases.names[span.database], span.taken
        before = self._databases.position(name)
        self._switch(self._databases.instances(name).tellers(before), taken)
        self.note_enabled(
            {capture.table for capture in self._databases.instances(name).captures}, taken.instances
        )
        self._databases.note(name, taken.end, taken.instances)
        changes = self._record_changes(name, before, taken)
        try:
            decoded, faults = encode_without_faults(
                lambda faults: self._decoded(
                    name, taken, writer, {*aside, *faults}, changes, again=bool(faults)
                ),
                self._settings.source_as(SqlServerSettings).signal_tables,
            )
            letters = _letters(taken, {*aside, *faults})
        finally:
            forget(taken.read.parts)
        if decoded:
            self._open[name] = decoded[-1].open
        self._announced = max(0, self._announced - 1)
        return replace(
            self._encoded(span, decoded),
            incomplete=(
                *(Incomplete(table, Cause.GAP, str(before), why) for table, why in taken.gaps.items()),
                *undecodable(faults, str(before)),
            ),
            letters=letters,
            notices=self._completed(name, before, taken),
        )

    def _completed(self, name: str, before: LogPosition, taken: LogSlice) -> tuple[SourceNotice, ...]:
        """What Debezium notifies of a capture instance once all of its changes are sent."""
        prefix = self._settings.events.topic_prefix
        return tuple(
            SourceNotice(
                "Capture Instance",
                "COMPLETED",
                {
                    "capture_instance": capture.name,
                    "start_lsn": capture.start,
                    "stop_lsn": stop,
                    "commit_lsn": taken.end.commit,
                    "server": prefix,
                    "database": name,
                },
            )
            for capture, stop in completed(taken.instances.captures, before, taken.end)
        )

    def note_enabled(self, known: Collection[CollectionId], instances: Instances) -> None:
        """Note the tables that have capture instances and are not known."""
        signals = self._settings.source_as(SqlServerSettings).signal_tables
        tables = dict.fromkeys(capture.table for capture in instances.captures)
        self._appeared += [Arrival(table) for table in tables if table not in known and table not in signals]

    def _note_columns(self, before: Table, now: Table) -> None:
        """Note columns that a new capture instance has, and whose values in older rows no log has."""
        if self._settings.snapshot.new is not NewCollections.COLUMNS:
            return
        listed, settings = listed_name(now.id), self._settings.events
        columns = [name for name in filled_columns(before, now) if is_included(listed, name, settings)]
        if columns:
            self._appeared.append(Arrival(now.id, columns=tuple(columns)))

    def take_appeared(self) -> list[Arrival]:
        """Take the tables and columns captured only since the last call, or since the state was saved."""
        found, self._appeared = self._appeared, []
        return found

    def state_schemas(self, signal: ReceivedSignal) -> str:
        """Announce and record tables' schemas that a signal states; returns the answer.

        Raises SignalError if it can't be done.
        """
        tables = stated_tables(signal.data, self._databases.names)
        if unknown := [
            table.collection for table in tables if not self._databases.captures(table.collection)
        ]:
            raise SignalError(f"{unknown[0]} is not captured", hint="only captured tables can be named")
        tells = self._settings.source_as(SqlServerSettings).include_schema_changes
        if not (tells or self._tools.history):
            raise SignalError(
                "nobody would learn of it",
                hint="set include.schema.changes=true, or schema.history.internal",
            )
        positions = {name: self._databases.position(name) for name in self._databases.names}
        try:
            made = self._tracker.record_stated(tables, positions)
        except SourceError as error:
            raise SignalError(f"it can't be recorded: {error}") from error
        self._stated += made if tells else []
        return "; ".join(self._answer(change) for change in made)

    def _answer(self, change: SchemaChange) -> str:
        table = change.table.id
        logged = self._databases.logged(table.parts[0]).get(table)
        differs = logged is not None and (change.type is ChangeType.DROP or not alike(logged, change.table))
        but = ", but its events keep the columns of its capture instance" if differs else ""
        return f"{change.type} of {table} is announced{but}"

    def take_added(self) -> list[pa.RecordBatch]:
        """Take the events that signals have asked for since the last call."""
        stated, self._stated = self._stated, []
        return [schema_changes(stated, self._settings.events)] if stated else []

    def _decoded(
        self,
        name: str,
        taken: LogSlice,
        writer: PartWriter,
        aside: Collection[CollectionId],
        changes: Sequence[SchemaChange],
        *,
        again: bool,
    ) -> tuple[list[DecodedPart], Mapping[CollectionId, str]]:
        """Encode all but the tables in `aside`; also returns the faults that decoding found."""
        instances, faults = self._codecs.instances(
            taken.instances, taken.read.modes, self._windows.merges, aside
        )
        if faults:
            return [], faults
        rules = Rules(self._settings.events, instances, taken.read.clock_minutes)
        decode = DecodePart(rules, self._windows.watch(name), self._tools.clock.now_ms)
        parts = taken.read.parts or ((NOTHING,) if changes else ())
        decoded = encode_parts(
            self._tools.encoder,
            EncodePart(decode, writer, again),
            parts,
            PartContext(self._open.get(name), tuple(changes)),
            one_by_one=rules.settings.transaction_metadata,
        )
        return decoded, {table: why for result in decoded for table, why in result.faults.items()}

    def _switch(self, tellers: Mapping[CollectionId, tuple[int, frozenset[str]]], taken: LogSlice) -> None:
        """Have tables read again whose change table is gone or replaced: changes in between are missing.

        So are tables that have lost a column, which may have been added again with other values.
        """
        now = taken.instances.tellers(taken.end)
        for table, teller in tellers.items():
            if now.get(table) != teller:
                self._windows.note_switch(table)

    def _encoded(self, span: Span, decoded: Sequence[DecodedPart]) -> EncodingResult:
        signals = tuple(signal for part in decoded for signal in part.signals)
        superseded = SupersededKeys()
        for result in decoded:
            superseded |= result.superseded
        self._windows.note_signals(span.database, [signal.id for signal in signals])
        return EncodingResult(
            parts=tuple(result.part for result in decoded if result.part),
            signals=signals,
            superseded=superseded,
            counts=sum_counts(result.counts for result in decoded),
            lag_s=span.taken.lag_s(self._tools.clock.monotonic()),
        )

    def _record_changes(self, database: str, before: LogPosition, taken: LogSlice) -> list[SchemaChange]:
        """Record the shape changes to emit with a span. Open windows learn of those that concern them."""
        known = self._tracker.shapes
        # Those emitted before the log are part of a snapshot.
        made = self._tracker.record_changes(database, before, taken, PLAIN if self._announced else "false")
        for change in made:
            if change.type is ChangeType.ALTER:
                self._windows.note_switch(change.table.id)
                self._note_columns(known[change.table.id], change.table)
        return made if self._settings.source_as(SqlServerSettings).include_schema_changes else []


def _letters(taken: LogSlice, without: Collection[CollectionId]) -> dict[CollectionId, Letters]:
    """The change rows of tables that are set aside. They are copied, so the staged files can be removed."""
    captures = taken.instances.captures
    indexes: dict[CollectionId, set[int]] = {}
    for index in taken.read.modes:
        if captures[index].table in without:
            indexes.setdefault(captures[index].table, set()).add(index)
    if not indexes:
        return {}
    batches = [batch for part in taken.read.parts for batch in part.load()]
    found = {table: rows_of(batches, instances) for table, instances in indexes.items()}
    return {table: Letters(rows.count, rows.size, rows.lines) for table, rows in found.items() if rows.count}
