"""One PostgreSQL database as the engine's `Source`: its log, its tables, its windows.

Owns what must be known across turns: the codecs of the relations seen, the streamed transactions that are not
visible yet, and the windows in progress. The pure modules beside it make all decisions.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, astuple, dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from adapters.postgres.events.dead_letters import entries_of
from adapters.postgres.events.relations import Relations
from adapters.postgres.events.rows import row_shape
from adapters.postgres.events.source_block import ReadPlace, read_source
from adapters.postgres.log import pending_visibility
from adapters.postgres.log.cuts import cut_of
from adapters.postgres.log.entries import relations_in
from adapters.postgres.log.pending_visibility import PendingVisibility
from adapters.postgres.log.reader import LogBounds, PostgresLog, Span, Start, Subscription
from adapters.postgres.log.retention import Retention
from adapters.postgres.log.touched_keys import Watch
from adapters.postgres.saved import saved_of
from adapters.postgres.server.connection import Identity, Server, check_identity
from adapters.postgres.server.membership import MembershipWatch
from adapters.postgres.server.publication import Publication, ensure_publication
from adapters.postgres.server.replication import PublicationMissing
from adapters.postgres.server.session_pool import Sessions
from adapters.postgres.server.signal_table import check_signal_table
from adapters.postgres.server.table import relation_of
from adapters.postgres.server.visibility import Visibility, format_lsn
from adapters.postgres.snapshot import superseded_keys
from adapters.postgres.snapshot.chunk_reader import RunRead
from adapters.postgres.snapshot.eligibility import Readable
from adapters.postgres.snapshot.fingerprint import difference
from adapters.postgres.snapshot.initial import SlotStart
from adapters.postgres.snapshot.initial_view import InitialView
from adapters.postgres.snapshot.older_writers import PublishedTables
from adapters.postgres.snapshot.tables import PostgresTables
from adapters.postgres.snapshot.watermark import (
    AtBeginning,
    ExportedSnapshot,
    SignalRows,
    SignalTable,
    VisibilityWatermark,
)
from adapters.postgres.snapshot.window import PostgresWindow, TableLocks
from adapters.source.no_log import NoLog
from adapters.source.table_faults import encode_without_faults
from adapters.source.window_reader import Reading
from engine.config.settings import GeneratedColumns, Watermarking
from engine.errors import (
    InvariantError,
    PositionLost,
    SchemaChanged,
    SourceError,
    TableBusy,
    TidemarkError,
)
from engine.expressions import matches
from engine.isolation.incomplete import Cause, Incomplete, Letters, undecodable
from engine.model import CollectionId, Position, SignalRow
from engine.ports import Encoded
from engine.staging.reads import ReadEvents

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from adapters.postgres.events.decode import Decoded
    from adapters.postgres.log.cuts import Cut
    from adapters.postgres.log.reader import Sent
    from adapters.postgres.log.takeover import Takeover
    from adapters.postgres.log.timeline import TransactionContext
    from adapters.postgres.server.catalog import Catalog
    from adapters.postgres.server.questions.questions import Questions
    from adapters.postgres.server.questions.snapshots import Exported
    from adapters.postgres.snapshot.eligibility import ReadTable
    from adapters.postgres.snapshot.watermark import GivesWay, Watermark
    from adapters.postgres.tools import SourceTools
    from engine import ports
    from engine.config.settings import Settings
    from engine.job.state import State
    from engine.model import Target, Window
    from engine.ports import PartWriter
    from engine.snapshot.merge import Superseded

_log = logging.getLogger("adapters")
_HELD_FOR_KEYS = 1000
"""The most rows read again for which the stream waits; reading so many takes about 10 ms."""
_LOOK_S, _TOLD_AFTER_S = 0.2, 5.0
_SETTLE_S = 0.1
_SETTLE_POLL_S = 0.005


class EncodedSpan(NamedTuple):
    """A decoded span. `hidden` are the relations, by name, for which no events were made."""

    decoded: Sequence[Decoded]
    hidden: Mapping[CollectionId, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Session:
    """What opening the log set up; every opening makes a new one."""

    questions: Questions
    extents: PostgresTables
    relations: Relations
    membership: MembershipWatch


class PostgresSource:
    """The engine's `Source`. Only the job's thread uses it.

    `admit` is `wiring.Places.admit`.
    """

    def __init__(
        self,
        settings: Settings,
        server: Server,
        tools: SourceTools,
    ) -> None:
        self._settings, self._server, clock = settings, server, tools.clock
        self._signal_tables = _names_of(settings.signals.collection, settings.postgres.database)
        self.admit: Callable[[Sequence[CollectionId]], None] = lambda _tables: None
        self._clock, self._spans, self._reader = clock, tools.spans, tools.chunks
        self._first, self._tools = tools.initial, tools.slot
        self._view = InitialView(self._first, self._tools)
        self._takeover: Takeover | None = None
        self._retention = Retention(settings.postgres.slot, settings.postgres.wal_warn_bytes, clock.monotonic)
        self._session: Session | None = None
        self._pending = PendingVisibility()
        self._last_commit_end: int | None = None
        self._last_commit: tuple[int, int, int] | None = None
        self._context: TransactionContext | None = None
        self._published = PublishedTables()
        self._windows: dict[str, PostgresWindow] = {}
        self._log_reader: PostgresLog | None = None
        self._found: list[Incomplete] = []
        self._sessions = Sessions(server.open, clock.monotonic)

    # The log.

    def open_log(self, state: State) -> tuple[State, PostgresLog | NoLog]:
        """Check server, publication and slot against the state, and open the log there."""
        identity = self._server.identity(replicates=self._first.streams)
        saved_of(state)
        check_identity(state.identity, identity)
        self._server.refuse_standby()
        self._reader.reach()
        catalog = self._open_session()
        if state.position is None:
            # Before there is a slot, which would keep log for nothing.
            self.admit([table for table in catalog.tables() if self._captures(*table.parts)])
        if self._first.streams:
            self._publish(catalog)
            check_signal_table(self._server, self._settings)
        try:
            return self._open_log(state, identity)
        except PositionLost as lost:
            # Only what the log brings may show that it is lost; some modes then start from scratch.
            self._first.release()
            return self._open_log(state, identity, lost)

    def _open_log(
        self, state: State, identity: Identity, lost: PositionLost | None = None
    ) -> tuple[State, PostgresLog | NoLog]:
        start = SlotStart(self._tools, identity, lost)
        state = replace(self._first.start(state, start), identity=identity.to_json())
        self._takeover = start.takeover or self._takeover
        saved = saved_of(state)
        self._pending, self._context = saved.pending, saved.context
        self._last_commit_end, self._last_commit = saved.last_commit_end, saved.last_commit
        self._opened().relations.keys = saved.keys
        if not self._first.streams:
            return state, NoLog()
        self._published = self._opened().extents.note_published(state.memory.get("published"))
        self._opened().extents.partitions.resume(state.memory.get("partitions", {}))
        state = self._note_members(state)
        log = self._log_reader = self._log(state.position, identity.timeline, start.sent)
        try:
            self._await_past(log, start.sent)
        except BaseException:
            log.close()
            raise
        return state, log

    def _note_members(self, state: State) -> State:
        """The state, moved past the place in the log where the publication was missing, if it was."""
        membership, since = self._opened().membership, _shown(state.position)
        self._found = membership.begin(state.memory.get("members"), since)
        if self._log_reader is None or not isinstance(self._log_reader.failure, PublicationMissing):
            return state
        position = Position((self._opened().questions.transactions.log_end(), 0))
        _log.warning(
            "the log can't be decoded up to %s, where the publication did not exist", _shown(position)
        )
        self._found += membership.skipped(since)
        self._last_commit = self._last_commit_end = self._context = None
        return replace(state, position=position)

    def tick(self, state: State) -> Sequence[Incomplete]:
        """Do what is due once a turn; returns the tables found to lack changes."""
        self._view.tick(state, reading=bool(self._windows))
        for window in self._windows.values():
            window.tick(state.position)
        found, self._found = self._found, []
        if self._first.streams:
            self._retention.look(self._opened().questions.slots)
            since, session = _shown(state.position), self._opened()
            found += session.membership.look(since)
            emptied = session.extents.partitions.emptied()
            found += [Incomplete(name, Cause.DELETIONS, since, why) for name, why in emptied.items()]
        if self._takeover is not None:
            self._takeover.tell(state.position)
        self._sessions.trim()
        return found

    def _publish(self, catalog: Catalog) -> None:
        postgres = self._settings.postgres
        ensure_publication(
            self._server,
            postgres.publication,
            postgres.publication_autocreate,
            lambda: [one for one in catalog.tables() if self._captures(*one.parts)],
        )

    def _await_past(self, log: PostgresLog, sent: Sent | None) -> None:
        """Return once the log has brought again what was sent before.

        Raises PositionLost if it does not come.
        """
        tell_at = self._clock.monotonic() + _TOLD_AFTER_S
        while not log.await_past(_LOOK_S):
            if self._clock.sleep(0.0):
                raise SourceError("stopped while the log passed over what was sent before")
            if sent and self._clock.monotonic() >= tell_at:
                tell_at = float("inf")
                _log.info("passing over what was sent before, up to %s", format_lsn(sent.commit.end))

    def _log(self, position: Position | None, timeline: int, sent: Sent | None) -> PostgresLog:
        if position is None:
            raise InvariantError("a log is opened at no position")
        postgres = self._settings.postgres
        bounds = self._bounds()
        with self._server.admission():
            log = PostgresLog(
                self._server.log_conninfo,
                subscription=Subscription(postgres.slot, postgres.publication, postgres.stream_params),
                start=Start(position, self._last_commit_end, sent, timeline),
                bounds=bounds,
                give_up=self._server.give_up,
            )
        _log.info("reading the log from %s", format_lsn(int(position.order[0])))
        return log

    def close(self) -> None:
        """Release what is held for an initial snapshot, and close the connections beside the log."""
        self._first.release()
        self._close_session()
        self._tools.watch.close()

    def _close_session(self) -> None:
        self._sessions.close()
        if self._session is not None:
            self._session.questions.close()
            self._session = None

    def _bounds(self) -> LogBounds:
        job = self._settings.job
        return LogBounds(
            span_rows=job.span_max_rows,
            span_bytes=job.span_max_bytes,
            part_rows=max(1, job.span_max_rows // 4),
            part_bytes=max(1, job.span_max_bytes // 4),
            status_interval_s=self._settings.postgres.status_interval_ms / 1000,
            silence_s=self._server.silence_s(self._opened().questions.slots.reader_timeout_s()),
        )

    def _open_session(self) -> Catalog:
        self._close_session()
        questions = self._server.open()
        # A missing synchronous standby must not block a transaction that only flushes the log.
        questions.commit_locally()
        publication = Publication(self._settings.postgres.publication, self._captures)
        conditions = self._settings.snapshot.conditions
        readable = Readable(questions, publication, self._accepts_risk, self._view, conditions)
        whole = 0 if self._settings.job.window_max_chunks else None
        extents = PostgresTables(
            questions,
            publication,
            readable,
            self._clock,
            whole_bytes=whole,
            plan_on=lambda within_s: self._server.open(within_s=within_s),
        )
        relations = Relations(questions.catalog, self._settings.events, self._captures)
        membership = MembershipWatch(
            questions, publication, self._settings.capture.captures, self._clock.monotonic
        )
        self._session = Session(questions, extents, relations, membership)
        return questions.catalog

    def _captures(self, schema: str, table: str) -> bool:
        signal = self._settings.signals.collection
        if signal is not None and signal.parts[-2:] == (schema, table):
            return True
        return self._settings.capture.captures(schema, table)

    def _accepts_risk(self, table: CollectionId) -> bool:
        return matches(self._settings.snapshot.accept_risk, str(table))

    def memory(self) -> Mapping[str, Any]:
        """What to save: the last commit, an open transaction's counters, pending transactions, keys, …"""
        context = self._context
        return {
            "last_commit_end": self._last_commit_end,
            "last_commit": self._last_commit,
            "subscription": self._tools.subscription,
            "unsettled": self._pending.to_json(),
            "transaction": asdict(context) if context and context.xid is not None else None,
            "keys": {str(oid): key for oid, key in self._opened().relations.keys.items()},
            "first": self._first.memory(),
            "published": self._published.to_json(),
            "members": self._opened().membership.members.saved,
            "partitions": self._opened().extents.partitions.digests,
        }

    def tables(self) -> PostgresTables:
        """The tables that a signal can name."""
        return self._opened().extents

    def _opened(self) -> Session:
        if self._session is None:
            raise InvariantError("the source was used before its log was opened")
        return self._session

    def run_statement(self, statement: str) -> None:
        """Run the user's statement, if there is one, in a transaction of its own."""
        if statement:
            self._opened().questions.run(statement, "the user's statement")

    # A span.

    def encode(
        self,
        span: ports.Span,
        writer: PartWriter,
        aside: Collection[CollectionId] = (),
        reading: ports.Reading = MappingProxyType({}),
    ) -> Encoded:
        """Encode a span into the writer, and return what it superseded."""
        if not isinstance(span, Span):
            raise InvariantError(f"a span of another source: {span!r}")
        relations = self._opened().relations
        visibility, now_s = self._visibility_now() if span.entries else (None, None)
        watch = partial(self._watch, visibility, reading)
        (decoded, hidden), faults = encode_without_faults(
            lambda faults: self._encode_span(span, writer, {*aside, *faults}, watch, again=bool(faults)),
            self._signal_tables,
        )
        self._context = decoded[-1].context if decoded else self._context
        self._last_commit_end = span.last_commit_end
        self._last_commit = astuple(span.last_commit) if span.last_commit else self._last_commit
        if self._takeover is not None:
            self._takeover.count(span, relations.ids)
        letters = {name: entries_of([cut.part for cut in span.cuts], oids) for name, oids in hidden.items()}
        if visibility is not None:
            self._pending = superseded_keys.noted(self._pending, decoded, visibility)
            for name, oids in hidden.items():
                missing = visibility.missing(letters[name].xids)
                self._pending = self._pending.add_whole(missing, oids)
        rows = [row for one in decoded for row in one.signals]
        for window in self._windows.values():
            for row in rows:
                window.watermark.streamed(row.op, row.id)
        return Encoded(
            parts=tuple(one.part for one in decoded if one.part),
            signals=tuple(
                SignalRow(f"{format_lsn(row.position[0])}/{row.position[1]}", row.id, row.type, row.data)
                for row in rows
                if row.op == "c"
            ),
            superseded_in=self._superseded(decoded),
            moved=superseded_keys.moved(decoded, relations.ids),
            incomplete=undecodable(faults, _shown(span.start)),
            letters={
                name: Letters(found.count, found.size, found.lines)
                for name, found in letters.items()
                if found.count
            },
            lag_s=None if now_s is None else max(0.0, now_s - span.committed_at_s),
        )

    def _encode_span(
        self,
        span: Span,
        writer: PartWriter,
        aside: Collection[CollectionId],
        watch: Callable[[], Watch],
        *,
        again: bool,
    ) -> tuple[EncodedSpan, dict[CollectionId, str]]:
        """Encode all tables but those in `aside`; also returns why tables can't be decoded."""
        relations = self._opened().relations
        known = [
            relations.codecs(cut.definitions, relations_in(cut.part.messages), aside) for cut in span.cuts
        ]
        decoded: Sequence[Decoded] = ()
        faults = {oid: why for one in known for oid, why in one.faults.items()}
        if not faults:
            parts = [(cut.part, one.codecs) for cut, one in zip(span.cuts, known, strict=True)]
            # `watch` is called only here: before, a relation's name may be unknown.
            decoded = self._spans.encode(parts, span.entries, watch(), writer, self._context, again=again)
            faults = {oid: why for one in decoded for oid, why in one.faults.items()}
        hidden = set[int]().union(*(one.aside for one in known))
        return (
            EncodedSpan(decoded, _by_name(hidden, relations.ids)),
            {relations.ids[oid]: why for oid, why in faults.items()},
        )

    def _visibility(self) -> Visibility:
        return self._visibility_now()[0]

    def _visibility_now(self) -> tuple[Visibility, float]:
        """The visible transactions, and the server's time in Unix seconds."""
        return self._opened().questions.transactions.visible()

    def _watch(self, visibility: Visibility | None, reading: ports.Reading) -> Watch:
        settled = visibility.shows if visibility else None
        cuts = self._cuts(reading)
        if not self._windows:
            return Watch(settled=settled, cuts=cuts)
        # The window opened first contains the fewest transactions.
        first = next(iter(self._windows.values()))
        oids = frozenset[int]().union(*(window.oids for window in self._windows.values()))
        contained = first.watermark.exported.visibility.shows
        return Watch(oids=oids, contained=contained, settled=settled, cuts=cuts)

    def _cuts(self, reading: ports.Reading) -> dict[int, frozenset[Cut]]:
        """The keys that cut the relations being read, for relations whose names are known."""
        if not reading:
            return {}
        ids = self._ids()
        return {oid: frozenset(map(cut_of, reading[name])) for oid, name in ids.items() if name in reading}

    def _ids(self) -> dict[int, CollectionId]:
        """The names of relations, from the log and from lookups."""
        session = self._opened()
        return {**session.extents.ids, **session.relations.ids}

    def _superseded(self, decoded: Sequence[Decoded]) -> dict[str, Superseded]:
        """What the entries supersede in each open window; each window's snapshot shows other transactions."""
        return {
            name: superseded_keys.by(decoded, window.watermark.exported.visibility, self._names(window.oids))
            for name, window in self._windows.items()
        }

    def _names(self, oids: Iterable[int]) -> dict[int, CollectionId]:
        ids = self._opened().relations.ids
        return {oid: ids[oid] for oid in oids}

    def holds_log(self, state: State) -> bool:  # noqa: ARG002  the port's signature
        """Whether the log must wait until the initial snapshot has been read in the snapshot that is held."""
        return self._first.holds_log

    def done(self, state: State) -> bool:
        """Whether a job that streams no log has finished."""
        return self._first.done(state)

    def hidden_moves(self, reading: ports.Reading) -> ports.Moved:
        """The old and new keys of rows that lack a value and may have moved, in pending transactions."""
        ids, cuts = self._ids(), self._cuts(reading)
        untold = {oid for oid, found in cuts.items() if not all(cut.told for cut in found)}
        return {ids[oid]: keys for oid, keys in self._pending.moved_keys(untold).items() if oid in cuts}

    # Windows.

    def open_window(self, window: Window) -> PostgresWindow:
        """Take a snapshot, and start a Spark job that reads the window's runs under it.

        If the window reads single rows again, the stream is held at the snapshot until they are read.
        Otherwise, for rows that change all the time, a change would supersede what was read again and again.
        """
        if window.initial:
            self._view.release_if_ended()
            if self._first.held is None:
                self._await_beginning(window)
        log = self._log_reader if self._holds(window) else None
        if log is None:
            return self._open_window(window, *self._watermark(window))
        log.hold()
        try:
            watermark, held = self._watermark(window)
            log.hold(watermark.exported.horizon)
            return self._open_window(window, watermark, held, log.let_go)
        except BaseException:
            log.let_go()
            raise

    def _holds(self, window: Window) -> bool:
        """Whether the stream waits while a window is read: only for a few rows that are read again.

        It does not wait if a row in the log closes the window, because that row comes after the reading.
        """
        if self._settings.snapshot.watermarking is not Watermarking.VISIBILITY:
            return False
        if window.initial and self._first.held is not None:
            return False
        keys = [len(run.keys) for run in window.runs]
        return all(keys) and sum(keys) <= _HELD_FOR_KEYS

    def _open_window(
        self,
        window: Window,
        watermark: Watermark,
        held: GivesWay,
        let_go: Callable[[], None] = lambda: None,
    ) -> PostgresWindow:
        session = self._opened()
        exported = watermark.exported
        try:
            # Under the locks, so that the description matches what the snapshot shows.
            tables = session.extents.readings(window.targets)
            self._refuse_other_forms(window, tables)
            self._pending = self._pending.seen(exported.visibility)
            self._refuse_unknown_keys(tables)
            reads = self._reads(window, tables, exported, self._clock.now_ms)
        except TidemarkError:
            watermark.close()
            raise
        oids = frozenset(read.table.oid for read in tables.values())
        most = self._settings.snapshot.max_threads if window.initial else 0
        opened = PostgresWindow(
            oids,
            watermark,
            TableLocks(held, partial(self._check_tables, window)),
            superseded_keys.before(self._pending, self._names(oids)),
            Reading(
                read=partial(self._reader.read, window.id, reads, exported, most_tasks=most),
                cancel=partial(self._reader.cancel, window.id),
                directory=self._reader.jobs.directory(window.id),
                closed=partial(self._forget, window.id, let_go),
            ),
        )
        self._windows[window.id] = opened
        return opened

    def _forget(self, window_id: str, let_go: Callable[[], None]) -> None:
        self._windows.pop(window_id, None)
        let_go()

    def _check_tables(self, window: Window) -> None:
        """Raise SchemaChanged if a table of the window is not as it was when the window opened."""
        self._refuse_other_forms(window, self._opened().extents.readings(window.targets))

    def _await_beginning(self, window: Window) -> None:
        """Raise TableBusy while a transaction from before the log's beginning may be hidden from snapshots.

        Such a transaction is in no log, and holds its lock on a table for as long as it is hidden.
        """
        extents = self._opened().extents
        for read in extents.readings(window.targets).values():
            extents.await_writers(read)

    def _reads(
        self, window: Window, tables: Mapping[Target, ReadTable], exported: Exported, now_ms: int
    ) -> list[RunRead]:
        session = self._opened()
        relations = session.relations
        relations.learn_types(read.table for read in tables.values())
        stored = self._settings.snapshot.generated_columns is GeneratedColumns.STORED
        prepared = {}
        for target, read in tables.items():
            relations.adopt(read)
            relation = relation_of(read.table, read.columns, stored=stored)
            shape = row_shape(relation, read.table, relations.types)
            place = self._view.place(exported) if target.initial else self._place(exported)
            source = read_source(self._settings.events, read.table.id, place)
            events = ReadEvents(relations.codec(relation, read.table), shape, source, now_ms)
            prepared[target] = (read, events)
        return [
            RunRead(run, *prepared[run.target], session.extents.row_bytes(run.target)) for run in window.runs
        ]

    def _refuse_other_forms(self, window: Window, tables: Mapping[Target, ReadTable]) -> None:
        """Refuse a table whose fingerprint changed.

        The bounds of one key would cut another key anywhere, and rewritten rows must be read again.
        """
        for run in window.runs:
            read = tables[run.target]
            if read.fingerprint != run.key:
                self._opened().extents.await_writers(read)
                raise SchemaChanged(difference(run.key, read.fingerprint), place=run.target.collection)

    def _refuse_unknown_keys(self, tables: Mapping[Target, ReadTable]) -> None:
        """Refuse a window on a relation while it is not known which of its rows are older than the stream."""
        for target, read in tables.items():
            if self._pending.everything_of(read.table.oid):
                raise TableBusy(
                    f"a transaction of more than {pending_visibility.KEPT_KEYS} rows is not visible yet",
                    place=target.collection,
                    hint="it may wait for a standby that the server's synchronous_standby_names asks for",
                )

    def _settle(self) -> None:
        """Wait a moment for streamed transactions to become visible; most do within microseconds."""
        clock = self._clock
        until = clock.monotonic() + _SETTLE_S
        while self._pending.transactions and clock.monotonic() < until:
            self._pending = self._pending.seen(self._visibility())
            clock.sleep(_SETTLE_POLL_S)

    def _watermark(self, window: Window) -> tuple[SignalRows | VisibilityWatermark | AtBeginning, GivesWay]:
        if window.initial and (first := self._first.held) is not None:
            return AtBeginning(first.snapshot.exported), self._view
        self._settle()
        tables = list(dict.fromkeys(target.collection for target in window.targets))
        questions = self._opened().questions
        strategy, signal = self._settings.snapshot.watermarking, self._settings.signals.collection
        if strategy is Watermarking.VISIBILITY:
            held = ExportedSnapshot(self._sessions, tables, watch=self._tools.watch)
            return VisibilityWatermark(held, questions.transactions, self._clock.monotonic), held
        if signal is None:
            raise InvariantError("signal rows need a signal table")
        table = SignalTable(signal, questions.signals, delete=strategy is Watermarking.INSERT_DELETE)
        rows = SignalRows(self._sessions, tables, window.id, table, self._tools.watch)
        return rows, rows.held

    def _place(self, exported: Exported) -> ReadPlace:
        return ReadPlace(
            self._clock.now_ms, last_commit_end=self._last_commit_end, sequence_lsn=exported.horizon
        )


def _names_of(signals: CollectionId | None, database: str) -> Collection[CollectionId]:
    """The names that the log may have for the signal table; the setting may include the database."""
    if signals is None:
        return ()
    return {signals, CollectionId(signals.parts[1:])} if signals.parts[0] == database else {signals}


def _by_name(oids: Iterable[int], ids: Mapping[int, CollectionId]) -> dict[CollectionId, frozenset[int]]:
    found: dict[CollectionId, frozenset[int]] = {}
    for oid in oids:
        found[ids[oid]] = found.get(ids[oid], frozenset()) | {oid}
    return found


def _shown(position: Position | None) -> str:
    return format_lsn(int(position.order[0])) if position else "the log's begin"
