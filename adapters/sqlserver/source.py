"""The engine's `Source` for the databases of one SQL Server: their logs, tables and windows.

Owns what must survive from turn to turn: the open transaction whose events are counted, and the windows in
progress. `tracker.py` keeps the emitted shapes. Decisions are made in pure modules.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from adapters.source.span_encoder import EncodePart
from adapters.source.table_faults import encode_without_faults
from adapters.source.window_reader import Reading
from adapters.sqlserver.databases import Databases, check_identity
from adapters.sqlserver.events import transactions
from adapters.sqlserver.events.codecs import Codecs
from adapters.sqlserver.events.dead_letters import rows_of
from adapters.sqlserver.events.decode import Rules, Watch
from adapters.sqlserver.events.schema_changes import ChangeType
from adapters.sqlserver.events.source_block import ReadPlace, read_source
from adapters.sqlserver.events.span_encoder import DecodePart, PartContext, encode_parts
from adapters.sqlserver.log.capture_instances import check_reach, marks_of, marks_out
from adapters.sqlserver.log.changes import NOTHING
from adapters.sqlserver.log.database_log import Asking, DatabaseTail
from adapters.sqlserver.log.reader import LogSlice, Span, SqlServerLog
from adapters.sqlserver.log.span_reader import Read, forget
from adapters.sqlserver.saved import check_saved
from adapters.sqlserver.schema.tracker import SchemaTracker
from adapters.sqlserver.server.position import Place, places_of, position_of
from adapters.sqlserver.server.rows import row_shape
from adapters.sqlserver.snapshot.chunk_reader import RunRead
from adapters.sqlserver.snapshot.initial import CaptureStart, InitialReads
from adapters.sqlserver.snapshot.tables import SqlServerTables
from adapters.sqlserver.snapshot.watermark import AtBeginning, LogEnd, SignalRows, SignalTable, Watermark
from adapters.sqlserver.snapshot.window import SqlServerWindow
from engine.config.settings import Watermarking
from engine.errors import InvariantError, SchemaChanged, TableBusy
from engine.events.record.envelope import PLAIN
from engine.isolation.incomplete import Cause, Incomplete, Letters, undecodable
from engine.model import Position, SignalRow
from engine.ports import Encoded
from engine.snapshot.merge import Superseded
from engine.staging.reads import ReadEvents

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from adapters.source.initial import InitialSnapshot
    from adapters.sqlserver.events.decode import Decoded
    from adapters.sqlserver.events.schema_changes import SchemaChange
    from adapters.sqlserver.events.transactions import OpenTransaction
    from adapters.sqlserver.server.connection import Server
    from adapters.sqlserver.server.table import Column
    from adapters.sqlserver.snapshot.eligibility import ReadTable
    from adapters.sqlserver.snapshot.initial import Held
    from adapters.sqlserver.tools import SourceTools
    from engine import ports
    from engine.config.settings import Settings
    from engine.job.state import State
    from engine.model import CollectionId, Target, Window
    from engine.ports import PartWriter

_log = logging.getLogger("adapters")


class SqlServerSource:
    """The engine's `Source`. Used by the job's thread alone."""

    def __init__(
        self,
        settings: Settings,
        server: Server,
        databases: Databases,
        tools: SourceTools,
        first: InitialSnapshot[Held],
    ) -> None:
        self._settings, self._server, self._databases = settings, server, databases
        self._tools, self._first = tools, first
        self._initial = InitialReads(settings.sqlserver.isolation, databases, first)
        whole = {"whole_bytes": 0} if settings.job.window_max_chunks else {}
        conditions = settings.snapshot.conditions
        self._extents = SqlServerTables(
            databases, keyless=lambda: self._initial.waits, conditions=conditions, **whole
        )
        self._codecs = Codecs(settings)
        self._tracker = SchemaTracker(databases, self._codecs, tools.history)
        self._open: dict[str, OpenTransaction | None] = {}
        self._announced = 0
        self._gone: dict[str, set[tuple[str, int]]] = {}
        self._unnumbered: dict[str, set[tuple[str, int]]] = {}
        self._windows: dict[str, SqlServerWindow] = {}

    # The log.

    def open_log(self, state: State) -> tuple[State, SqlServerLog]:
        """Check the databases against the state, and open the log at its position or its end."""
        self._databases.close()
        identity = self._databases.identity()
        check_saved(state)
        check_identity(state.identity, identity)
        names = self._databases.names
        for name in names:
            self._databases.note(name, self._databases.place(name), self._databases.look(name))
            self._databases.check_tables(name)
            self._tools.chunks.reach(name)
        state = replace(self._with_places(state), identity=identity)
        start = CaptureStart(self._settings, self._server, self._databases, self._initial)
        state = self._first.start(state, start)
        if state.position is None:
            raise InvariantError("a job without a position")
        self._resume(state, state.position)
        log = self._opened(state, state.position)
        return state, log

    def _with_places(self, state: State) -> State:
        """The state with a place for every database. A database added since begins at its present end."""
        saved, names = state.memory.get("names"), self._databases.names
        if state.position is None or saved is None:
            return state
        if list(saved) == list(names):
            return replace(state, position=position_of(places_of(state.position)))  # in the current form
        known = dict(zip(saved, places_of(state.position), strict=True))
        for name in names:
            if name not in known:
                _log.warning("database %s is new to the job; its log is streamed from its present end", name)
        places = [known.get(name) or self._databases.greatest(name) for name in names]
        return replace(state, position=position_of(places))

    def _resume(self, state: State, position: Position) -> None:
        """Restore what the state remembers."""
        left = state.memory.get("transactions", {})
        self._open = {name: transactions.from_json(left.get(name)) for name in self._databases.names}
        places = dict(zip(self._databases.names, places_of(position), strict=True))
        for name, place in places.items():
            self._databases.note(name, place)
        self._tracker.recover(state.memory.get("shapes"), places)

    def _opened(self, state: State, position: Position) -> SqlServerLog:
        """The log. Its first spans report shapes that are new since the state."""
        now_s = time.time()
        told = [
            Span(
                position,
                position,
                number,
                LogSlice(
                    place,
                    Read(),
                    self._databases.instances(name),
                    now_s,
                    news=True,
                    gaps=self._gaps(state, name, place),
                ),
            )
            for number, (name, place) in enumerate(
                zip(self._databases.names, places_of(position), strict=True)
            )
        ]
        self._announced = len(told)
        if not self._first.streams:
            return SqlServerLog([], position, 3600.0, told)
        saved = state.memory.get("databases", {})
        tails = [self._tail(name, saved.get(name, {}).get("instances", ())) for name in self._databases.names]
        _log.info("reading the change tables from %s", shown(position))
        return SqlServerLog(tails, position, self._settings.sqlserver.poll_interval_ms / 1000, told)

    def _gaps(self, state: State, name: str, place: Place) -> dict[CollectionId, str]:
        """The tables whose changes were cleaned up while no job ran."""
        if not self._first.streams:
            return {}
        known = marks_of(state.memory.get("databases", {}).get(name, {}).get("instances", ()))
        captures = self._databases.instances(name).captures
        return check_reach(known, captures, place, self._settings.sqlserver.signal_tables)

    def _tail(self, name: str, saved: Sequence[Sequence[Any]]) -> DatabaseTail:
        ask = partial(self._databases.open, name)
        gone = self._gone.setdefault(name, set())
        unnumbered = self._unnumbered.setdefault(name, set())
        asking = Asking(
            self._tools.bounds,
            self._settings.sqlserver.agent_status_query,
            gone,
            unnumbered,
            self._settings.sqlserver.signal_tables,
            self._databases.captures,
        )
        instances = self._databases.instances(name)
        return DatabaseTail(name, ask, self._tools.changes(name), asking, instances, marks_of(saved))

    def close(self) -> None:
        """Release locks and connections."""
        self._first.release()
        self._databases.close()
        self._server.close()
        if self._tools.history is not None:
            self._tools.history.close()

    def memory(self) -> Mapping[str, Any]:
        """Open transactions, shapes, capture instances, and the beginning of the initial snapshot."""
        return {
            "names": list(self._databases.names),
            "transactions": {name: transactions.to_json(one) for name, one in self._open.items()},
            "shapes": self._tracker.memory(),
            "databases": {
                name: {"instances": marks_out(self._databases.instances(name).marks)}
                for name in self._databases.names
            },
            "first": self._first.memory(),
        }

    def tick(self, state: State) -> Sequence[Incomplete]:
        """Check on the locks of the initial snapshot, and release them once it is read."""
        if not self._announced:
            self._initial.tick(state)
        return ()

    def holds_log(self, state: State) -> bool:
        """Whether the log must wait until the initial snapshot has been read."""
        return not self._announced and self._initial.holds(state)

    def done(self, state: State) -> bool:
        """Whether a job that streams no log has finished."""
        return not self._announced and self._first.done(state)

    def hidden_moves(self, _reading: ports.Reading) -> ports.Moved:
        """None: what was streamed is committed, and rows are read with locks."""
        return {}

    def tables(self) -> SqlServerTables:
        """The tables that a signal can name."""
        return self._extents

    def run_statement(self, statement: str) -> None:
        """Run the user's statement, if any, in the first database."""
        if statement:
            self._server.run(self._databases.names[0], statement, "the user's statement")

    # A span.

    def encode(
        self,
        span: ports.Span,
        writer: PartWriter,
        aside: Collection[CollectionId] = (),
        reading: ports.Reading = MappingProxyType({}),  # noqa: ARG002  the log has complete rows
    ) -> Encoded:
        """Encode a span into the writer, and return what it supersedes."""
        if not isinstance(span, Span):
            raise InvariantError(f"a span of another source: {span!r}")
        name, taken = self._databases.names[span.database], span.taken
        before = self._databases.place(name)
        self._switch(self._databases.instances(name).tellers(before), taken)
        self._databases.note(name, taken.end, taken.instances)
        news = self._told(name, before, taken)
        try:
            decoded, faults = encode_without_faults(
                lambda faults: self._decoded(
                    name, taken, writer, {*aside, *faults}, news, again=bool(faults)
                ),
                self._settings.sqlserver.signal_tables,
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
        )

    def _decoded(
        self,
        name: str,
        taken: LogSlice,
        writer: PartWriter,
        aside: Collection[CollectionId],
        news: Sequence[SchemaChange],
        *,
        again: bool,
    ) -> tuple[list[Decoded], Mapping[CollectionId, str]]:
        """Encode all but the tables in `aside`; also returns the faults that decoding found."""
        instances, faults = self._codecs.instances(taken.instances, taken.read.modes, self._merges(), aside)
        if faults:
            return [], faults
        rules = Rules(self._settings.events, instances, taken.read.clock_minutes)
        decode = DecodePart(rules, self._watch(name), int(time.time() * 1000))
        parts = taken.read.parts or ((NOTHING,) if news else ())
        decoded = encode_parts(
            self._tools.encoder,
            EncodePart(decode, writer, again),
            parts,
            PartContext(self._open.get(name), tuple(news)),
            one_by_one=rules.settings.transaction_metadata,
        )
        return decoded, {table: why for one in decoded for table, why in one.faults.items()}

    def _switch(self, tellers: Mapping[CollectionId, int], taken: LogSlice) -> None:
        """Have tables read again whose change table is gone or replaced: changes in between are missing."""
        now = taken.instances.tellers(taken.end)
        for table, teller in tellers.items():
            if now.get(table) != teller:
                self._switched(table)

    def _switched(self, table: CollectionId) -> None:
        for window in self._windows.values():
            window.switched(table)

    def _encoded(self, span: Span, decoded: Sequence[Decoded]) -> Encoded:
        signals = [signal for one in decoded for signal in one.signals]
        superseded = Superseded()
        for one in decoded:
            superseded |= one.superseded
        for window in self._windows.values():
            for signal in signals:
                window.streamed(span.database, signal.id)
        name = self._databases.names[span.database]
        return Encoded(
            parts=tuple(one.part for one in decoded if one.part),
            signals=tuple(SignalRow(f"{name}:{one.place}", one.id, one.type, one.data) for one in signals),
            superseded=superseded,
            lag_s=span.taken.lag_s(time.monotonic()),
        )

    def _watch(self, database: str) -> Watch:
        """The tables of open windows: everything streamed while a window is open supersedes its rows."""
        return Watch(frozenset(one for one in self._merges() if one.parts[0] == database))

    def _merges(self) -> dict[CollectionId, tuple[str, ...]]:
        """The tables being read, with the columns that match their rows to changes."""
        return {table: names for one in self._windows.values() for table, names in one.merges.items()}

    def _told(self, database: str, before: Place, taken: LogSlice) -> list[SchemaChange]:
        """The shape changes to emit with a span. Open windows are told of those that concern them."""
        made = self._tracker.told(database, before, taken, self._telling())
        for one in made:
            if one.type is ChangeType.ALTER:
                self._switched(one.table.id)
        return made if self._settings.sqlserver.include_schema_changes else []

    def _telling(self) -> str:
        """The `snapshot` value of schema changes: those emitted before the log are part of a snapshot."""
        return PLAIN if self._announced else "false"

    # Windows.

    def open_window(self, window: Window) -> SqlServerWindow:
        """Set a watermark in each database, and start the tasks that read the window's runs."""
        tables = frozenset(target.collection for target in window.targets)
        names = list(dict.fromkeys(table.parts[0] for table in tables))
        for name in names:
            self._databases.refuse_replicas(name)
        found = self._extents.readings(window.targets)
        merges = merge_columns(found.values())
        self._refuse_other_merges(merges)
        reads = self._reads(window, found, merges)
        numbers = [list(self._databases.names).index(name) for name in names]
        watermarks = {
            number: self._watermark(window, name) for number, name in zip(numbers, names, strict=True)
        }
        most = self._settings.snapshot.max_threads if window.initial else 0
        session = self._initial.session if window.initial else ()
        read = partial(self._tools.chunks.read, window.id, reads, most_tasks=most, session=session)
        opened = SqlServerWindow(
            watermarks,
            merges,
            Reading(
                read=read,
                cancel=partial(self._tools.chunks.jobs.cancel, window.id),
                directory=self._tools.chunks.jobs.directory(window.id),
                closed=partial(self._windows.pop, window.id, None),
            ),
        )
        self._windows[window.id] = opened
        return opened

    def _refuse_other_merges(self, merges: Mapping[CollectionId, tuple[str, ...]]) -> None:
        """Refuse a second surrogate key: during a window, one choice of columns identifies changes."""
        merging = self._merges()
        for table, names in merges.items():
            if merging.get(table, names) != names:
                raise TableBusy("it is being read by another surrogate key", place=table)

    def _reads(
        self,
        window: Window,
        tables: Mapping[Target, ReadTable],
        merges: Mapping[CollectionId, tuple[str, ...]],
    ) -> list[RunRead]:
        """The runs and how to read them. Raises SchemaChanged where a table differs from the plan."""
        events = {
            target: self._events(target, read, merges[target.collection]) for target, read in tables.items()
        }
        for run in window.runs:
            if tables[run.target].fingerprint != run.key:
                raise SchemaChanged(
                    "its key is another one, or it was made anew", place=run.target.collection
                )
        return [
            RunRead(run, tables[run.target], events[run.target], self._extents.row_bytes(run.target))
            for run in window.runs
        ]

    def _events(self, target: Target, read: ReadTable, merge: tuple[str, ...]) -> ReadEvents:
        now_ms, name = int(time.time() * 1000), target.collection.parts[0]
        place = self._databases.place(name)
        if target.initial:
            place = self._initial.place(name) or place
        at = ReadPlace(
            now_ms,
            place.commit,
            None if place.whole or target.initial else place.change,
            snapshot=PLAIN if target.initial else "incremental",
        )
        source = read_source(self._settings.events, target.collection, at)
        codec = self._codecs.codec(read.table, merge)
        return ReadEvents(codec, row_shape(read.table), source, now_ms)

    def _watermark(self, window: Window, database: str) -> Watermark:
        if window.initial and self._initial.waits:
            return AtBeginning(self._initial.alive())
        strategy, questions = self._settings.snapshot.watermarking, self._databases.questions(database)
        signal = self._settings.sqlserver.signal_table(database)
        if strategy is Watermarking.VISIBILITY:
            return LogEnd(questions)
        if signal is None:
            raise InvariantError("signal rows need a signal table")
        table = SignalTable(signal, self._databases.signal_columns(signal))
        return SignalRows(questions, table, window.id, strategy)


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
    return {table: Letters(one.count, one.size, one.lines) for table, one in found.items() if one.count}


def merge_columns(reads: Iterable[ReadTable]) -> dict[CollectionId, tuple[str, ...]]:
    """The columns that match rows to changes, for each table of a window.

    A table without a key that is read by several surrogate keys has the columns of all of them, since its
    changes are matched once for all. Large values, which old rows of the log may lack, count only if there
    are no other columns.
    """
    found: dict[CollectionId, dict[str, Column]] = {}
    for read in reads:
        found.setdefault(read.table.id, {}).update({one.name: one for one in read.merge.columns})
    return {
        table: tuple(name for name, one in columns.items() if not one.large) or tuple(columns)
        for table, columns in found.items()
    }


def shown(position: Position) -> str:
    """A position as text: its places."""
    return ", ".join(map(str, places_of(position)))
