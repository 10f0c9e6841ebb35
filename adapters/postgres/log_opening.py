"""Opens the log of one PostgreSQL database where a state says, again after each session that was lost.

Owns the session of the latest opening, and what outlasts an opening: the slot that is taken over, the tables
that were warned of, what the publication was found to lack.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from adapters.postgres.log.reader import SessionTools
from adapters.postgres.log.stream.subscription import Start
from adapters.postgres.log.stream_opening import await_past
from adapters.postgres.log_session import (
    LogSession,
    Views,
    captures,
    open_session,
    publish,
    warn_of_bare_inserts,
)
from adapters.postgres.saved import saved_of
from adapters.postgres.server.connection import Identity, Server, check_identity
from adapters.postgres.server.position import position_at, shown_position
from adapters.postgres.server.replication import PublicationMissing
from adapters.postgres.server.signal_table import check_signal_table
from adapters.postgres.settings import PostgresSettings
from adapters.postgres.snapshot.blocking import BlockingViews
from adapters.postgres.snapshot.initial import SlotStart
from adapters.postgres.snapshot.initial_view import InitialView
from adapters.postgres.snapshot.table_changes.older_writers import PublishedTables
from adapters.postgres.snapshot.windows import OpenWindows
from adapters.postgres.stream_state import StreamState
from adapters.postgres.streamed_spans import StreamedSpans
from adapters.source.log.no_log import NoLog
from engine.errors import InvariantError, PositionLost
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from adapters.postgres.events.relations import Relations
    from adapters.postgres.log.reader import PostgresLog
    from adapters.postgres.log.slots.takeover import Takeover
    from adapters.postgres.tools import SourceTools
    from engine.config.settings import Settings
    from engine.isolation.incomplete import Incomplete
    from engine.job.saved.state import State

_log = logging.getLogger("adapters")


@dataclass(frozen=True, slots=True)
class OpenLog:
    """What an opening of the log makes: from the log to events and windows."""

    session: LogSession
    streamed: StreamState
    windows: OpenWindows
    spans: StreamedSpans


class LogOpening:
    """Opens the log. `opened` is what the latest opening has made, `log` the log that it reads.

    `signal_tables` are the names that the log may have for the signal table. `relations` makes those of a
    session of the log.
    """

    def __init__(
        self,
        settings: Settings,
        server: Server,
        tools: SourceTools,
        relations: Callable[..., Relations],
    ) -> None:
        self._settings, self._server, self._tools = settings, server, tools
        self._relations = partial(relations, captures=partial(captures, settings))
        self._first = tools.initial
        monotonic, signals = tools.clock.monotonic, settings.signals
        blocking = BlockingViews(tools.slot.watch, signals.table, monotonic)
        self.views = Views(InitialView(tools.initial, tools.slot), blocking)
        self.signal_tables = _names_of(signals.collection, settings.source_as(PostgresSettings).database)
        self.opened: OpenLog | None = None
        self.log: PostgresLog | None = None
        self.takeover: Takeover | None = None
        self.published = PublishedTables()
        self._session: LogSession | None = None
        self._found: list[Incomplete] = []
        self._warned: set[CollectionId] = set()

    def open(self, state: State) -> tuple[State, PostgresLog | NoLog]:
        """Check server, publication and slot against the state, and open the log there."""
        identity = self._server.identity(replicates=self._first.streams)
        for known in state.perhaps_sent:
            saved_of(known)
        check_identity(state.identity, identity)
        self._server.refuse_standby()
        self._tools.chunks.reach()
        self.close()
        settings, clock = self._settings, self._tools.clock
        session = self._session = open_session(settings, self._server, self.views, clock, self._relations)
        if state.position is None:
            # Before there is a slot, which would keep log for nothing.
            self._tools.admit(session.captured(self._settings))
        if self._first.streams:
            publish(self._settings, self._server, session)
            warn_of_bare_inserts(session, self._warned)
            check_signal_table(self._server, self._settings)
        try:
            return self._open(state, identity, session)
        except PositionLost as lost:
            # Only what the log brings may show that it is lost; some modes then start from scratch.
            self._first.release()
            return self._open(state, identity, session, lost)

    def _open(
        self, state: State, identity: Identity, session: LogSession, lost: PositionLost | None = None
    ) -> tuple[State, PostgresLog | NoLog]:
        start, resumes = SlotStart(self._tools.slot, identity, lost), state.position is not None
        state = replace(self._first.start(state, start), identity=identity.to_json())
        self.takeover = start.takeover or self.takeover
        opened = self.opened = self._parts_of(session, StreamState.up_to(state))
        session.relations.keys = saved_of(state).keys
        if not self._first.streams:
            self.views.blocking.attach(session, opened.streamed, None)
            return state, NoLog()
        self.published = session.tables.note_published(state.memory.get("published"))
        session.tables.partitions.resume(state.memory.get("partitions", {}))
        state = self._note_members(state, opened, resumes=resumes)
        if state.position is None:
            raise InvariantError("a log is opened at no position")
        begin = Start(state.position, opened.streamed.last_commit_end, start.sent, identity)
        silence_s = self._server.silence_s(session.questions.slots.reader_timeout_s())
        tools = SessionTools(self._tools.clock, self._tools.directory)
        log = self.log = self._tools.open_stream(self._settings, self._server, begin, silence_s, tools)
        try:
            start.check_again(state.position, session)
            await_past(log, start.sent, self._tools.clock)
        except BaseException:
            log.close()
            raise
        self.views.blocking.attach(session, opened.streamed, log)
        return state, log

    def _parts_of(self, session: LogSession, streamed: StreamState) -> OpenLog:
        tools = self._tools
        windows = OpenWindows(self._settings, tools, self.views, session, streamed)
        spans = StreamedSpans(tools.spans, session, streamed, windows, self.signal_tables)
        return OpenLog(session, streamed, windows, spans)

    def _note_members(self, state: State, opened: OpenLog, *, resumes: bool) -> State:
        """The state, moved past the place in the log where the publication was missing, if it was.

        A log that is resumed by a state without members made no turn yet. Then the slot tells since when the
        publication matters, as it does if it was found without a state.
        """
        membership, since = opened.session.membership, shown_position(state.position)
        slots, members = opened.session.questions.slots, state.memory.get("members")
        asks = self.takeover is not None or (resumes and members is None)
        oldest = slots.xmin(self._settings.source_as(PostgresSettings).slot) if asks else None
        self._found = membership.begin(members, since, oldest)
        if state.awaits_log:
            membership.take_appeared()  # what is published since the old log is repaired with everything else
        if opened.session.columns is not None:
            opened.session.columns.begin(state.memory.get("columns"), membership.members.entries)
        if self.log is None or not isinstance(self.log.failure, PublicationMissing):
            return state
        position = position_at(opened.session.questions.transactions.log_end())
        _log.warning(
            "the log can't be decoded up to %s, where the publication did not exist", shown_position(position)
        )
        self._found += membership.skipped(since)
        opened.streamed.forget_last_commit()
        return replace(state, position=position)

    def take_found(self) -> Sequence[Incomplete]:
        """The tables that an opening has found to lack changes since the last call."""
        found, self._found = self._found, []
        return found

    def close(self) -> None:
        """Close the connections beside the log."""
        self.views.blocking.release()
        if self._session is not None:
            self._session.close()
        self._session = self.opened = None


def _names_of(signals: CollectionId | None, database: str) -> Collection[CollectionId]:
    """The names that the log may have for the signal table; the setting may include the database."""
    if signals is None:
        return ()
    return {signals, CollectionId(signals.parts[1:])} if signals.parts[0] == database else {signals}
