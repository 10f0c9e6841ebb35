"""One PostgreSQL database as the engine's `Source`: its log, its tables, its windows.

Opens the log and does what is due once a turn. `spans.py` encodes, `windows.py` opens windows, `session.py`
has what is asked over the control connection, `streamed.py` what is known of the stream across turns.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from adapters.postgres.events.relations import Relations
from adapters.postgres.events.settled import SettledIn
from adapters.postgres.log.opening import await_past
from adapters.postgres.log.slots.retention import Retention
from adapters.postgres.log.span import Span
from adapters.postgres.log.subscription import Start
from adapters.postgres.saved import saved_of
from adapters.postgres.server.connection import Identity, Server, check_identity
from adapters.postgres.server.position import position_at
from adapters.postgres.server.replication import PublicationMissing
from adapters.postgres.server.signal_table import check_signal_table
from adapters.postgres.session import Session, Views, captures, open_session, publish, warn_of_bare_inserts
from adapters.postgres.settings import PostgresSettings
from adapters.postgres.snapshot.blocking import BlockingViews
from adapters.postgres.snapshot.initial import SlotStart
from adapters.postgres.snapshot.initial_view import InitialView
from adapters.postgres.snapshot.table_changes.older_writers import PublishedTables
from adapters.postgres.snapshot.windows import OpenWindows
from adapters.postgres.spans import Spans, shown_position
from adapters.postgres.streamed import Streamed
from adapters.source.log.no_log import NoLog
from engine.errors import (
    InvariantError,
    PositionLost,
)
from engine.isolation.incomplete import Cause, Incomplete
from engine.model import Appeared, CollectionId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from adapters.postgres.log.reader import PostgresLog
    from adapters.postgres.log.slots.takeover import Takeover
    from adapters.postgres.saved import Began, Memory
    from adapters.postgres.snapshot.opening_window import OpeningWindow
    from adapters.postgres.snapshot.tables import PostgresTables
    from adapters.postgres.snapshot.window import PostgresWindow
    from adapters.postgres.tools import SourceTools
    from engine.config.settings import Settings
    from engine.job.saved.state import State
    from engine.model import Window
    from engine.ports.log import Span as TakenSpan
    from engine.ports.sink import PartWriter
    from engine.ports.source import Encoded, Moved, Reading
    from engine.verify.deletes import DeleteEvents

_log = logging.getLogger("adapters")


@dataclass(frozen=True, slots=True)
class _OpenLog:
    """What an opening of the log makes: from the log to events and windows."""

    session: Session
    streamed: Streamed
    windows: OpenWindows
    spans: Spans


class PostgresSource:
    """The engine's `Source`. Only the job's thread uses it.

    `admit` is `supplied.Places.admit`.
    """

    def __init__(self, settings: Settings, server: Server, tools: SourceTools) -> None:
        self._settings, self._server, self._tools = settings, server, tools
        self.admit: Callable[[Sequence[CollectionId]], None] = lambda _tables: None
        self._first, self._view = tools.initial, InitialView(tools.initial, tools.slot)
        signals = settings.signals.table
        self._blocking = BlockingViews(tools.slot.watch, signals, tools.clock.monotonic)
        self._views = Views(self._view, self._blocking)
        self._takeover: Takeover | None = None
        postgres = settings.source_as(PostgresSettings)
        self._retention = Retention(postgres.slot, postgres.wal_warn_bytes, tools.clock.monotonic)
        self._published = PublishedTables()
        self._log_reader: PostgresLog | None = None
        self._found: list[Incomplete] = []
        self._warned: set[CollectionId] = set()
        self._session: Session | None = None
        self._open: _OpenLog | None = None

    # The log.

    def open_log(self, state: State) -> tuple[State, PostgresLog | NoLog]:
        """Check server, publication and slot against the state, and open the log there."""
        identity = self._server.identity(replicates=self._first.streams)
        saved_of(state)
        check_identity(state.identity, identity)
        self._server.refuse_standby()
        self._tools.chunks.reach()
        self._close_session()
        settings, clock = self._settings, self._tools.clock
        relations = partial(Relations, settings=settings.events, captures=partial(captures, settings))
        session = self._session = open_session(settings, self._server, self._views, clock, relations)
        if state.position is None:
            # Before there is a slot, which would keep log for nothing.
            self.admit(session.captured(self._settings))
        if self._first.streams:
            publish(self._settings, self._server, session)
            warn_of_bare_inserts(session, self._warned)
            check_signal_table(self._server, self._settings)
        try:
            return self._open_log(state, identity, session)
        except PositionLost as lost:
            # Only what the log brings may show that it is lost; some modes then start from scratch.
            self._first.release()
            return self._open_log(state, identity, session, lost)

    def _open_log(
        self, state: State, identity: Identity, session: Session, lost: PositionLost | None = None
    ) -> tuple[State, PostgresLog | NoLog]:
        start = SlotStart(self._tools.slot, identity, lost)
        state = replace(self._first.start(state, start), identity=identity.to_json())
        self._takeover = start.takeover or self._takeover
        opened = self._open = self._parts_of(session, Streamed.up_to(state))
        session.relations.keys = saved_of(state).keys
        if not self._first.streams:
            self._blocking.attach(session, opened.streamed, None)
            return state, NoLog()
        self._published = session.extents.note_published(state.memory.get("published"))
        session.extents.partitions.resume(state.memory.get("partitions", {}))
        state = self._note_members(state, opened)
        if state.position is None:
            raise InvariantError("a log is opened at no position")
        begin = Start(state.position, opened.streamed.last_commit_end, start.sent, identity.timeline)
        silence_s = self._server.silence_s(session.questions.slots.reader_timeout_s())
        log = self._log_reader = self._tools.open_stream(
            self._settings, self._server, begin, silence_s, self._tools.directory
        )
        try:
            start.check_again(state.position, session)
            await_past(log, start.sent, self._tools.clock)
        except BaseException:
            log.close()
            raise
        self._blocking.attach(session, opened.streamed, log)
        return state, log

    def _parts_of(self, session: Session, streamed: Streamed) -> _OpenLog:
        settings, tools = self._settings, self._tools
        windows = OpenWindows(settings, tools, self._views, session, streamed)
        signal_tables = _names_of(settings.signals.collection, settings.source_as(PostgresSettings).database)
        return _OpenLog(
            session, streamed, windows, Spans(tools.spans, session, streamed, windows, signal_tables)
        )

    def _note_members(self, state: State, opened: _OpenLog) -> State:
        """The state, moved past the place in the log where the publication was missing, if it was."""
        membership, since = opened.session.membership, shown_position(state.position)
        slots, takeover = opened.session.questions.slots, self._takeover
        oldest = slots.xmin(takeover.slot) if takeover else None
        self._found = membership.begin(state.memory.get("members"), since, oldest)
        if opened.session.columns is not None:
            opened.session.columns.begin(state.memory.get("columns"), membership.members.entries)
        if self._log_reader is None or not isinstance(self._log_reader.failure, PublicationMissing):
            return state
        position = position_at(opened.session.questions.transactions.log_end())
        _log.warning(
            "the log can't be decoded up to %s, where the publication did not exist", shown_position(position)
        )
        self._found += membership.skipped(since)
        opened.streamed.skipped()
        return replace(state, position=position)

    def tick(self, state: State) -> Sequence[Incomplete]:
        """Do what is due once a turn; returns the tables found to lack changes."""
        opened = self._opened()
        self._view.tick(state, reading=bool(opened.windows.opened))
        self._blocking.tick(state, reading=bool(opened.windows.opened))
        for window in opened.windows.opened.values():
            window.tick(state.position)
        found, self._found = self._found, []
        if self._first.streams:
            self._retention.look(opened.session.questions.slots)
            since = shown_position(state.position)
            membership, columns = opened.session.membership, opened.session.columns
            found += membership.look(since)
            if columns is not None:
                columns.look(membership.members.entries)
            emptied = opened.session.extents.partitions.emptied()
            found += [Incomplete(name, Cause.DELETIONS, since, why) for name, why in emptied.items()]
        if self._takeover is not None:
            self._takeover.tell(state.position)
        opened.session.pool.trim()
        return found

    def appeared(self) -> Sequence[Appeared]:
        """What is captured only since the last call, or since the state was saved: tables and columns."""
        if not self._first.streams:
            return ()
        signals = _names_of(
            self._settings.signals.collection, self._settings.source_as(PostgresSettings).database
        )
        session = self._opened().session
        found = session.membership.appeared() + (session.columns.appeared() if session.columns else [])
        return [table for table in found if table.collection not in signals]

    def kept_bytes(self) -> int | None:
        """How much log the server keeps for the slot, as last looked at."""
        return self._retention.bytes

    def close(self) -> None:
        """Release what is held for an initial snapshot, and close the connections beside the log."""
        self._first.release()
        self._close_session()
        self._tools.slot.watch.close()

    def _close_session(self) -> None:
        self._blocking.release()
        if self._session is not None:
            self._session.close()
        self._session = self._open = None

    def _opened(self) -> _OpenLog:
        if self._open is None:
            raise InvariantError("the source was used before its log was opened")
        return self._open

    def memory(self) -> Memory:
        """What to save: the last commit, an open transaction's counters, pending transactions, keys, …"""
        opened = self._opened()
        session = opened.session
        return {
            **opened.streamed.memory(),
            "subscription": self._tools.slot.subscription,
            "keys": {str(oid): key for oid, key in session.relations.keys.items()},
            "first": cast("Began", self._first.memory()),
            "published": self._published.to_json(),
            "members": session.membership.members.saved,
            **({"columns": session.columns.saved} if session.columns else {}),
            "partitions": session.extents.partitions.digests,
        }

    def holds_log(self, state: State) -> bool:
        """Whether the log must wait until a snapshot has been read in the view that is held."""
        return self._first.holds_log or self._blocking.waits(state.position)

    # Spans, tables, windows.

    def encode(
        self,
        span: TakenSpan,
        writer: PartWriter,
        aside: Collection[CollectionId] = (),
        reading: Reading = MappingProxyType({}),
    ) -> Encoded:
        """Encode a span into the writer, and return what it superseded."""
        if not isinstance(span, Span):
            raise InvariantError(f"a span of another source: {span!r}")
        opened = self._opened()
        encoded = opened.spans.encode(span, writer, aside, reading)
        if self._takeover is not None:
            self._takeover.count(span, opened.session.relations.ids)
        return encoded

    def hidden_moves(self, reading: Reading) -> Moved:
        """The old and new keys of rows that lack a value and may have moved, in pending transactions."""
        return self._opened().spans.hidden_moves(reading)

    def tables(self) -> PostgresTables:
        """The tables that a signal can name."""
        return self._opened().session.extents

    def open_window(self, window: Window) -> PostgresWindow | OpeningWindow:
        """Take a snapshot, and start a Spark job that reads the window's runs under it; or begin to."""
        return self._opened().windows.open(window, self._log_reader)

    # What the wiring asks for besides.

    def deletes(self, collection: CollectionId) -> DeleteEvents:
        """How delete events of rows are written that only a copy has. Raises SourceError."""
        return self._opened().windows.deletes(collection)

    def settled(self) -> SettledIn:
        """Whether the transactions of events are visible in snapshots from now on. Raises SourceError."""
        asked = self._opened().session.questions.transactions
        visible, now_s = asked.visible()
        return SettledIn(visible, int(now_s * 1000), asked.unassigned())

    def done(self, state: State) -> bool:
        """Whether a job that streams no log has finished."""
        return self._first.done(state)

    def run_statement(self, statement: str) -> None:
        """Run the user's statement, if there is one, in a transaction of its own."""
        if statement:
            self._opened().session.questions.run(statement, "the user's statement")


def _names_of(signals: CollectionId | None, database: str) -> Collection[CollectionId]:
    """The names that the log may have for the signal table; the setting may include the database."""
    if signals is None:
        return ()
    return {signals, CollectionId(signals.parts[1:])} if signals.parts[0] == database else {signals}
