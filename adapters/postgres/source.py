"""One PostgreSQL database as the engine's `Source`: its log, its tables, its windows.

Does what is due once a turn. `log_opening.py` opens the log, and `streamed_spans.py` encodes it.
`snapshot/windows.py` opens windows. `log_session.py` has what is asked over the control connection, and
`stream_state.py` what is known of the stream across turns.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from adapters.postgres.events.settled import SettledIn
from adapters.postgres.log.slots.retention import Retention
from adapters.postgres.log.span import Span
from adapters.postgres.server.position import shown_position
from adapters.postgres.settings import PostgresSettings
from engine.errors import InvariantError
from engine.isolation.incomplete import Cause, Incomplete

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from adapters.postgres.log.reader import PostgresLog
    from adapters.postgres.log_opening import LogOpening, OpenLog
    from adapters.postgres.saved import Memory, SnapshotOrigin
    from adapters.postgres.snapshot.opening_window import PostgresOpening
    from adapters.postgres.snapshot.tables import PostgresTables
    from adapters.postgres.snapshot.window import PostgresWindow
    from adapters.postgres.tools import SourceTools
    from adapters.source.log.no_log import NoLog
    from adapters.verify.tables.row_reads import RowReads
    from engine.config.settings import Settings
    from engine.job.saved.state import State
    from engine.model import Arrival, CollectionId, Window
    from engine.ports.log import Span as TakenSpan
    from engine.ports.sink import PartWriter
    from engine.ports.source import EncodingResult, Moved, Reading
    from engine.verify.deletes import DeleteEvents


class PostgresSource:
    """The engine's `Source`. Only the job's thread uses it."""

    lasting = ("members",)

    def __init__(self, settings: Settings, tools: SourceTools, opening: LogOpening) -> None:
        self._tools, self._opening = tools, opening
        self._first, self._views = tools.initial, opening.views
        postgres = settings.source_as(PostgresSettings)
        self._retention = Retention(postgres.slot, postgres.wal_warn_bytes, tools.clock.monotonic)

    # The log.

    def open_log(self, state: State) -> tuple[State, PostgresLog | NoLog]:
        """Check server, publication and slot against the state, and open the log there."""
        return self._opening.open(state)

    def _opened(self) -> OpenLog:
        if self._opening.opened is None:
            raise InvariantError("the source was used before its log was opened")
        return self._opening.opened

    def tick(self, state: State) -> Sequence[Incomplete]:
        """Do what is due once a turn; returns the tables found to lack changes."""
        opened = self._opened()
        self._views.initial.tick(state, reading=bool(opened.windows.opened))
        self._views.blocking.tick(state, reading=bool(opened.windows.opened))
        for window in opened.windows.opened.values():
            window.tick(state.position)
        found = [*self._opening.take_found()]
        if self._first.streams:
            self._retention.look(opened.session.questions.slots)
            since = shown_position(state.position)
            membership, columns = opened.session.membership, opened.session.columns
            found += membership.look(since)
            if columns is not None:
                columns.look(membership.members.entries)
            emptied = opened.session.tables.partitions.take_emptied()
            found += [Incomplete(name, Cause.DELETIONS, since, why) for name, why in emptied.items()]
        self._outdate(found, state)
        if self._opening.takeover is not None:
            self._opening.takeover.tell(state.position)
        opened.session.pool.trim()
        return found

    def _outdate(self, found: Iterable[Incomplete], state: State | None = None) -> None:
        """Outdate the shared snapshots of tables whose log lacks changes: they may lack them, too."""
        collections = [fault.collection for fault in found if fault.cause is not Cause.DELETIONS]
        self._views.blocking.outdate(collections)
        if state is not None:
            self._views.initial.outdate(collections, state)

    def take_appeared(self) -> Sequence[Arrival]:
        """Take the tables and columns captured only since the last call, or since the state was saved."""
        if not self._first.streams:
            return ()
        session = self._opened().session
        found = session.membership.take_appeared() + (
            session.columns.take_appeared() if session.columns else []
        )
        return [table for table in found if table.collection not in self._opening.signal_tables]

    def kept_bytes(self) -> int | None:
        """How much log the server keeps for the slot, as last looked at."""
        return self._retention.bytes

    def close(self) -> None:
        """Release what is held for an initial snapshot, and close the connections beside the log."""
        self._first.release()
        self._opening.close()
        self._tools.slot.watch.close()

    def memory(self) -> Memory:
        """What to save: the last commit, an open transaction's counters, pending transactions, keys, …"""
        opened = self._opened()
        session = opened.session
        return {
            **opened.streamed.memory(),
            "subscription": self._tools.slot.subscription,
            "keys": {str(oid): key for oid, key in session.relations.keys.items()},
            "first": cast("SnapshotOrigin", self._first.memory()),
            "published": self._opening.published.to_json(),
            "members": session.membership.members.saved,
            **({"columns": session.columns.saved} if session.columns else {}),
            "partitions": session.tables.partitions.digests,
        }

    def holds_log(self, state: State) -> bool:
        """Whether the log must wait until a snapshot has been read in the view that is held."""
        return self._first.holds_log or self._views.blocking.waits(state.position)

    # Spans, tables, windows.

    def encode(
        self,
        span: TakenSpan,
        writer: PartWriter,
        aside: Collection[CollectionId] = (),
        reading: Reading = MappingProxyType({}),
    ) -> EncodingResult:
        """Encode a span into the writer, and return what it superseded."""
        if not isinstance(span, Span):
            raise InvariantError(f"a span of another source: {span!r}")
        opened = self._opened()
        encoded = opened.spans.encode(span, writer, aside, reading)
        self._outdate(encoded.incomplete)
        if self._opening.takeover is not None:
            self._opening.takeover.count(span, opened.session.relations.ids)
        return encoded

    def hidden_moves(self, reading: Reading) -> Moved:
        """The old and new keys of rows that lack a value and may have moved where measuring can't see it."""
        return self._opened().spans.hidden_moves(reading)

    def tables(self) -> PostgresTables:
        """The tables that a signal can name."""
        return self._opened().session.tables

    def open_window(self, window: Window) -> PostgresWindow | PostgresOpening:
        """Take a snapshot, and start a Spark job that reads the window's runs under it; or begin to."""
        return self._opened().windows.open(window, self._opening.log)

    # What the wiring asks for besides.

    def deletes(self, collection: CollectionId) -> DeleteEvents:
        """How delete events of rows are written that only a copy has. Raises SourceError."""
        return self._opened().windows.deletes(collection)

    def row_reads(self, collection: CollectionId) -> RowReads:
        """How rows of a collection are read from another table with its columns. Raises SourceError."""
        return self._opened().windows.table_reads.elsewhere(collection)

    def settled(self) -> SettledIn:
        """Whether the transactions of events are visible in snapshots from now on. Raises SourceError."""
        opened = self._opened()
        asked = opened.session.questions.transactions
        visible, now_s = asked.visible()
        hides_sent = opened.streamed.pending.without_visible(visible).any
        return SettledIn(visible, int(now_s * 1000), asked.unassigned(), hides_sent)

    def run_statement(self, statement: str) -> None:
        """Run the user's statement, if there is one, in a transaction of its own."""
        if statement:
            self._opened().session.questions.run(statement, "the user's statement")
