"""The engine's `Source` for the databases of one SQL Server: what is resumed and what is saved.

`log_opening.py` opens the log, and `streamed_spans.py` makes events of what it brings. `snapshot/windows.py`
opens windows.
"""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from adapters.sqlserver.checks import DatabaseChecks, check_identity
from adapters.sqlserver.log.capture_instances import marks_of, marks_out
from adapters.sqlserver.log.reader import Span
from adapters.sqlserver.log_opening import LogOpening
from adapters.sqlserver.saved import check_saved, saved_names
from adapters.sqlserver.schema.stated import SCHEMA_CHANGES
from adapters.sqlserver.server.forks import saved_fork
from adapters.sqlserver.server.position import position_of, positions_of
from adapters.sqlserver.snapshot.initial import CaptureStart
from engine.errors import InvariantError
from signals.actions import SignalAction

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pyarrow as pa

    from adapters.source.initial import InitialSnapshot
    from adapters.sqlserver.databases import Databases
    from adapters.sqlserver.log.capture_instances import Instances
    from adapters.sqlserver.log.reader import SqlServerLog
    from adapters.sqlserver.saved import Memory, SavedDatabase, SnapshotOrigin
    from adapters.sqlserver.server.connection import Server
    from adapters.sqlserver.snapshot.initial import HeldSnapshot, InitialReads
    from adapters.sqlserver.snapshot.opening_window import SqlServerOpening
    from adapters.sqlserver.snapshot.table_reads import RowReads
    from adapters.sqlserver.snapshot.tables import SqlServerTables
    from adapters.sqlserver.snapshot.window import SqlServerWindow
    from adapters.sqlserver.snapshot.windows import OpenWindows
    from adapters.sqlserver.streamed_spans import StreamedSpans
    from adapters.sqlserver.tools import SourceTools
    from engine.config.settings import Settings
    from engine.isolation.incomplete import Incomplete
    from engine.job.saved.state import State
    from engine.model import Arrival, CollectionId, Position, Window
    from engine.ports.log import Span as TakenSpan
    from engine.ports.sink import PartWriter
    from engine.ports.source import EncodingResult, Moved, Reading
    from engine.verify.deletes import DeleteEvents

_log = logging.getLogger("adapters")


@dataclass(frozen=True, slots=True)
class SourceParts:
    """The initial snapshot and how it reads, the tables, their windows, and what is streamed of them."""

    first: InitialSnapshot[HeldSnapshot]
    initial: InitialReads
    tables: SqlServerTables
    windows: OpenWindows
    spans: StreamedSpans


class SqlServerSource:
    """The engine's `Source`. Used by the job's thread alone."""

    lasting = ()

    def __init__(
        self,
        settings: Settings,
        server: Server,
        databases: Databases,
        tools: SourceTools,
        parts: SourceParts,
    ) -> None:
        self._settings, self._server, self._databases = settings, server, databases
        self._tools, self._first, self._initial = tools, parts.first, parts.initial
        self._tables, self._windows, self._spans = parts.tables, parts.windows, parts.spans
        self._checks = DatabaseChecks(settings, databases)
        self._opening = LogOpening(settings, databases, tools, parts.spans, streams=parts.first.streams)

    # The log.

    def open_log(self, state: State) -> tuple[State, SqlServerLog]:
        """Check the databases against the state, and open the log at its position or its end."""
        self._databases.close()
        self._windows.spare.empty()
        identity = self._checks.identity()
        for known in state.perhaps_sent:
            check_saved(known)
        check_identity(state.identity, identity)
        self._checks.check_spellings(state, identity)
        self._checks.note_forks(state)
        names = self._databases.names
        for name in names:
            self._databases.note(name, self._databases.position(name), self._databases.look(name))
            self._checks.check_tables(name)
            self._tools.chunks.reach(name)
        state = replace(_with_all_positions(state, self._databases), identity=identity)
        start = CaptureStart(self._settings, self._server, self._databases, self._initial)
        state = self._first.start(state, start)
        if state.position is None:
            raise InvariantError("a job without a position")
        self._resume(state, state.position)
        self._checks.check_forks()
        log = self._opening.open(state, state.position)
        if "databases" not in state.memory:
            # It is saved before the first turn. The next start must notice what is cleaned up until then.
            state = replace(state, memory={**state.memory, "databases": _saved(self._databases)})
        return state, log

    def _resume(self, state: State, position: Position) -> None:
        """Restore what the state remembers. The first span of each database only reports shapes."""
        positions = dict(zip(self._databases.names, positions_of(position), strict=True))
        for name, place in positions.items():
            self._databases.note(name, place)
            self._databases.forks.stream(name, saved_fork(state.memory, name))
        self._spans.resume(state.memory, positions, announced=len(positions))
        for name in self._databases.names:
            known = _enabled(state.memory, name, self._databases.instances(name))
            self._spans.note_enabled(known, self._databases.instances(name))

    def take_appeared(self) -> Sequence[Arrival]:
        """Take the tables and columns captured only since the last call, or since the state was saved."""
        return self._spans.take_appeared() if self._first.streams else ()

    @property
    def actions(self) -> Mapping[str, SignalAction]:
        """The signals that only this source knows."""
        return {SCHEMA_CHANGES: SignalAction(self._spans.state_schemas)}

    def take_added(self) -> Sequence[pa.RecordBatch]:
        """Take the events that signals have asked for since the last call."""
        return self._spans.take_added()

    def close(self) -> None:
        """Release locks and connections."""
        self._first.release()
        self._windows.spare.close()
        self._databases.close()
        self._server.close()
        if self._tools.history is not None:
            self._tools.history.close()

    def memory(self) -> Memory:
        """Open transactions, shapes, capture instances, and the beginning of the initial snapshot."""
        return {
            "names": list(self._databases.names),
            **self._spans.memory(),
            "databases": _saved(self._databases),
            "first": cast("SnapshotOrigin", self._first.memory()),
        }

    def tick(self, state: State) -> Sequence[Incomplete]:
        """Check on the locks of the initial snapshot, and release them once it is read."""
        if not self._spans.announcing:
            self._initial.tick(state)
        self._windows.spare.trim()
        return ()

    def holds_log(self, state: State) -> bool:
        """Whether the log must wait until a snapshot has been read."""
        if self._spans.announcing:
            return False
        return self._initial.holds(state) or self._windows.holds(state.position)

    def done(self, state: State) -> bool:
        """Whether a job that streams no log has finished."""
        return not self._spans.announcing and self._first.done(state)

    def hidden_moves(self, _reading: Reading) -> Moved:
        """None: what was streamed is committed, and rows are read with locks."""
        return {}

    def tables(self) -> SqlServerTables:
        """The tables that a signal can name."""
        return self._tables

    def deletes(self, collection: CollectionId) -> DeleteEvents:
        """How delete events of rows are written that only a copy has. Raises SourceError."""
        return self._windows.table_reads.deletes(collection)

    def row_reads(self, collection: CollectionId) -> RowReads:
        """How rows of a collection are read from another table with its columns. Raises SourceError."""
        return self._windows.table_reads.elsewhere(collection)

    def run_statement(self, statement: str) -> None:
        """Run the user's statement, if any, in the first database."""
        if statement:
            with closing(self._server.open(self._databases.names[0])) as questions:
                questions.run(statement, "the user's statement")

    # Spans and windows.

    def encode(
        self,
        span: TakenSpan,
        writer: PartWriter,
        aside: Collection[CollectionId] = (),
        reading: Reading = MappingProxyType({}),  # noqa: ARG002  the log has complete rows
    ) -> EncodingResult:
        """Encode a span into the writer, and return what it supersedes."""
        if not isinstance(span, Span):
            raise InvariantError(f"a span of another source: {span!r}")
        return self._spans.encode(span, writer, aside)

    def open_window(self, window: Window) -> SqlServerWindow | SqlServerOpening:
        """Set a watermark in each database, and start the tasks that read the window's runs; or begin to."""
        return self._windows.open(window)


def _with_all_positions(state: State, databases: Databases) -> State:
    """The state and its attempt with a position for every database."""
    return state.at(*(_with_positions(known, databases).position for known in state.perhaps_sent))


def _with_positions(state: State, databases: Databases) -> State:
    """The state with a position for every database. A database added since begins at its present end."""
    saved, names = saved_names(state.memory), databases.names
    if state.position is None or not saved:
        return state
    if saved == list(names):
        return replace(state, position=position_of(positions_of(state.position)))  # in the current form
    known = dict(zip(saved, positions_of(state.position), strict=True))
    for name in names:
        if name not in known:
            _log.warning("database %s is new to the job; its log is streamed from its present end", name)
    positions = [known.get(name) or databases.greatest(name) for name in names]
    return replace(state, position=position_of(positions))


def _enabled(memory: Mapping[str, Any], database: str, found: Instances) -> set[CollectionId]:
    """The tables of `found` that were enabled when the state was saved: none of a database that is new to it.

    All of them where the state does not say what was enabled: it is an older or an imported one.
    """
    saved, names = memory.get("databases", {}), saved_names(memory)
    if database not in saved and (database in names or not names):
        return {capture.table for capture in found.captures}
    known = {(mark.name, mark.object_id) for mark in marks_of(saved.get(database, {}).get("instances", ()))}
    return {capture.table for capture in found.captures if (capture.name, capture.object_id) in known}


def _saved(databases: Databases) -> dict[str, SavedDatabase]:
    found: dict[str, SavedDatabase] = {}
    for name in databases.names:
        found[name] = {"instances": marks_out(databases.instances(name).marks)}
        if fork := databases.forks.streamed.get(name):
            found[name]["fork"] = fork
    return found
