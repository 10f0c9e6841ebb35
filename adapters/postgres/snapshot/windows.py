"""The windows in progress: how they are opened, under which watermark, and what their tables must be like."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from adapters.postgres.events.source_block import ReadPosition
from adapters.postgres.events.table_reads import TableReads
from adapters.postgres.log import pending_visibility
from adapters.postgres.snapshot import superseded_keys
from adapters.postgres.snapshot.opening_window import OpeningWatch, TakenSnapshot
from adapters.postgres.snapshot.table_changes.fingerprint import difference
from adapters.postgres.snapshot.watermark import (
    AtBeginning,
    ExportedSnapshot,
    SignalRows,
    SignalTable,
    VisibilityWatermark,
)
from adapters.postgres.snapshot.window import PostgresWindow, TableLocks
from adapters.source.opening_window import ShownOpeningWindow
from adapters.source.window_reader import reading_of
from adapters.spark.windows.jdbc_job import RunRead
from engine.config.settings import Watermarking
from engine.errors import (
    InvariantError,
    SchemaChanged,
    TableBusy,
    TidemarkError,
)
from signals.window_rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adapters.postgres.log.pending_visibility import PendingVisibility
    from adapters.postgres.log.reader import PostgresLog
    from adapters.postgres.log_session import LogSession, Views
    from adapters.postgres.server.questions.questions import Questions
    from adapters.postgres.server.questions.snapshots import SnapshotExport
    from adapters.postgres.snapshot.blocking import BlockingView
    from adapters.postgres.snapshot.eligibility import ReadTable
    from adapters.postgres.snapshot.opening_window import PostgresOpening
    from adapters.postgres.snapshot.tables import PostgresTables
    from adapters.postgres.snapshot.watermark import GivesWay, Watermark
    from adapters.postgres.stream_state import StreamState
    from adapters.postgres.tools import SourceTools
    from engine.clock import Clock
    from engine.config.settings import Settings
    from engine.model import CollectionId, Target, Window
    from engine.verify.deletes import DeleteEvents


_HELD_FOR_KEYS = 1000
"""The most rows read again for which the stream waits; reading so many takes about 10 ms."""
_SETTLE_S = 0.1
_SETTLE_POLL_S = 0.005


class OpenWindows:
    """The windows that are open in one session of the log. `opened` has them by id, in order.

    `meanwhile` is what the stream carries while another one opens; None if none does.
    """

    def __init__(
        self, settings: Settings, tools: SourceTools, views: Views, session: LogSession, streamed: StreamState
    ) -> None:
        self._settings, self._tools, self._view = settings, tools, views.initial
        self._blocking = views.blocking
        self._session, self._streamed = session, streamed
        self.table_reads = TableReads(settings, session)
        self.opened: dict[str, PostgresWindow] = {}
        self.meanwhile: OpeningWatch | None = None

    @property
    def blocking_view(self) -> BlockingView | None:
        """The view of a blocking snapshot, while it is held."""
        return self._blocking.view

    def open(self, window: Window, log: PostgresLog | None) -> PostgresWindow | PostgresOpening:
        """Take a snapshot, and start a Spark job that reads the window's runs under it; or begin to.

        If the window reads single rows again, the stream is held at the snapshot until they are read.
        Otherwise, for rows that change all the time, a change would supersede what was read again and again.
        """
        if window.blocking:
            if not window.runs[0].keys:
                return self._open_blocking(window)
            # What superseded them is newer than the view.
            self._blocking.release()
        if window.initial:
            self._view.release_if_unusable()
            if self._tools.initial.held is None:
                self._await_writers(window)
        if log is None or not self._holds(window):
            oids = self._oids(window) if log is not None else frozenset()
            return self._begin(window, oids) if oids else self._open_window(window, *self._watermark(window))
        log.hold()
        try:
            watermark, held = self._watermark(window)
            log.hold(watermark.exported.horizon)
            return self._open_window(window, watermark, held, log.let_go)
        except BaseException:
            log.let_go()
            raise

    def _oids(self, window: Window) -> frozenset[int]:
        """The relations of a window that may open while the stream goes on; empty: it may not.

        Signal rows frame a window that is opened at once, and the snapshot before the log is there already.
        """
        if self._settings.snapshot.watermarking is not Watermarking.VISIBILITY:
            return frozenset()
        if window.initial and self._tools.initial.held is not None:
            return frozenset()
        known = {name: oid for oid, name in self._session.tables.ids.items()}
        oids = [known.get(target.collection) for target in window.targets]
        return frozenset(oid for oid in oids if oid is not None) if None not in oids else frozenset()

    def _begin(self, window: Window, oids: frozenset[int]) -> PostgresWindow | PostgresOpening:
        """Begin to open a window over these relations."""
        visibility = self._session.questions.transactions.visible()[0]
        self._streamed.pending = self._streamed.pending.without_visible(visibility)
        meanwhile = self.meanwhile = OpeningWatch(oids, self._streamed.pending, visibility)
        opening = ShownOpeningWindow(
            partial(self._export, window, meanwhile.pending),
            partial(self._join, window, meanwhile),
            self._opens_no_more,
            self._tools.opening(),
            TakenSnapshot.close,
        )
        return opening.joined() or opening

    def _opens_no_more(self) -> None:
        self.meanwhile = None

    def _export(self, window: Window, pending: PendingVisibility) -> TakenSnapshot:
        """Take a window's snapshot, in a session of its own, and look its tables up under its locks.

        Touches nothing that others change.
        """
        pool, before = self._session.pool, partial(_settle, self._tools.clock, pending)
        collections = list(dict.fromkeys(target.collection for target in window.targets))
        held = ExportedSnapshot(pool, collections, watch=self._tools.slot.watch, before=before)
        try:
            asking = pool.take()
            try:
                return TakenSnapshot(held, self._session.tables.looked_up_over(asking, window.targets))
            finally:
                pool.give(asking)
        except BaseException:
            held.close()
            raise

    def _join(self, window: Window, meanwhile: OpeningWatch, taken: TakenSnapshot) -> PostgresWindow:
        """Open the window whose snapshot is taken."""
        transactions = self._session.questions.transactions
        watermark = VisibilityWatermark(taken.held, transactions, self._tools.clock.monotonic)
        meanwhile.looked = taken.looked
        return self._open_window(window, watermark, taken.held, meanwhile=meanwhile)

    def _open_blocking(self, window: Window) -> PostgresWindow:
        """Read the runs in the view for which the stream waits."""
        self._await_writers(window)
        view = self._session.tables.blocking_view(window.targets)
        shared = VisibilityWatermark(
            view.held, self._session.questions.transactions, self._tools.clock.monotonic, shared=True
        )
        return self._open_window(window, shared, view.held, view=view)

    def _holds(self, window: Window) -> bool:
        """Whether the stream waits while a window is read: only for a few rows that are read again.

        No row in the log closes such a window: the stream could not come to it, because it comes after the
        reading.
        """
        if window.initial and self._tools.initial.held is not None:
            return False
        keys = [len(run.keys) for run in window.runs]
        return all(keys) and sum(keys) <= _HELD_FOR_KEYS

    def _open_window(
        self,
        window: Window,
        watermark: Watermark,
        held: GivesWay,
        let_go: Callable[[], None] = lambda: None,
        view: BlockingView | None = None,
        meanwhile: OpeningWatch | None = None,
    ) -> PostgresWindow:
        session = self._session
        exported = watermark.exported
        pending = self._streamed.pending
        try:
            # Under the locks, so that the description matches what the snapshot shows.
            tables = session.tables.readings(window.targets, meanwhile.looked if meanwhile else None)
            _refuse_other_forms(self._session.tables, window, tables)
            if view is None:
                self._streamed.pending = pending.without_visible(exported.visibility)
                pending = (
                    self._streamed.pending
                    if meanwhile is None
                    else meanwhile.pending_for(exported.visibility)
                )
                _refuse_unknown_keys(tables, pending)
                _refuse_unknown_keys(tables, self._streamed.pending)
            reads = self._reads(window, tables, exported)
        except TidemarkError:
            watermark.close()
            raise
        oids = frozenset(read.table.oid for read in tables.values())
        hidden = view.superseded if view else superseded_keys.of_pending(pending, self._session.names(oids))
        if meanwhile is not None:
            hidden |= superseded_keys.of_entries(
                meanwhile.decoded, exported.visibility, self._session.names(oids)
            )
        chunks = self._tools.chunks
        read = partial(chunks.read, window.id, reads, exported)
        forget = partial(self._forget, let_go)
        opened = PostgresWindow(
            oids,
            watermark,
            TableLocks(held, partial(self._check_tables, window)),
            hidden,
            reading_of(window, read, chunks, self._settings.snapshot, forget, self._tools.pool),
        )
        self.opened[window.id] = opened
        return opened

    def _forget(self, let_go: Callable[[], None], window_id: str) -> None:
        self.opened.pop(window_id, None)
        let_go()

    def _check_tables(self, window: Window) -> None:
        """Raise SchemaChanged if a table of the window is not as it was when the window opened."""
        _refuse_other_forms(self._session.tables, window, self._session.tables.readings(window.targets))

    def _await_writers(self, window: Window) -> None:
        """Raise TableBusy while an older transaction on the window's tables may be hidden from snapshots.

        A transaction from before the log's beginning is in no log, and holds its lock on a table for as long
        as it is hidden.
        """
        tables = self._session.tables
        for read in tables.readings(window.targets).values():
            tables.await_writers(read)

    def _reads(
        self, window: Window, tables: Mapping[Target, ReadTable], exported: SnapshotExport
    ) -> list[RunRead[ReadTable]]:
        def position_of(target: Target) -> ReadPosition:
            return (
                self._view.read_position(exported)
                if target.as_initial
                else self._read_position(exported.horizon)
            )

        events = self.table_reads.events(tables, position_of, self._tools.clock.now_ms)
        row_bytes = self._session.tables.row_bytes
        return [
            RunRead(run, tables[run.target], events[run.target], row_bytes(run.target)) for run in window.runs
        ]

    def deletes(self, collection: CollectionId) -> DeleteEvents:
        """How delete events of rows are written that only a copy has. Raises SourceError."""
        return self.table_reads.deletes(
            collection, self._read_position(self._streamed.committed_before_reads)
        )

    def _read_position(self, horizon: int | None) -> ReadPosition:
        return ReadPosition(
            self._tools.clock.now_ms,
            last_commit_end=self._streamed.committed_before_reads,
            sequence_lsn=horizon,
        )

    def _watermark(self, window: Window) -> tuple[SignalRows | VisibilityWatermark | AtBeginning, GivesWay]:
        if window.initial and (first := self._tools.initial.held) is not None:
            return AtBeginning(first.snapshot.exported), self._view
        _settle(self._tools.clock, self._streamed.pending, self._session.questions)
        tables = list(dict.fromkeys(target.collection for target in window.targets))
        questions = self._session.questions
        strategy, signal = self._settings.snapshot.watermarking, self._settings.signals.collection
        if strategy is Watermarking.VISIBILITY or self._holds(window):
            held = ExportedSnapshot(self._session.pool, tables, watch=self._tools.slot.watch)
            return VisibilityWatermark(held, questions.transactions, self._tools.clock.monotonic), held
        if signal is None:
            raise InvariantError("signal rows need a signal table")
        table = SignalTable(signal, questions.signals, delete=strategy is Watermarking.INSERT_DELETE)
        clock, watch = self._tools.clock, self._tools.slot.watch
        marks = rows_of(window, clock.now_ms)
        rows = SignalRows(self._session.pool, tables, marks, table, lambda: clock.now_ms, watch)
        return rows, rows.held


def _refuse_unknown_keys(tables: Mapping[Target, ReadTable], pending: PendingVisibility) -> None:
    """Refuse a window on a relation while it is not known which of its rows are older than the stream."""
    for target, read in tables.items():
        if pending.everything_of(read.table.oid):
            raise TableBusy(
                f"a transaction of more than {pending_visibility.KEPT_KEYS} rows is not visible yet",
                where=target.collection,
                hint="it may wait for a standby that the server's synchronous_standby_names asks for",
            )


def _refuse_other_forms(known: PostgresTables, window: Window, tables: Mapping[Target, ReadTable]) -> None:
    """Refuse a table whose fingerprint changed.

    The bounds of one key would cut another key anywhere, and rewritten rows must be read again.
    """
    for run in window.runs:
        read = tables[run.target]
        if read.fingerprint != run.key:
            known.await_writers(read)
            raise SchemaChanged(difference(run.key, read.fingerprint), where=run.target.collection)


def _settle(clock: Clock, pending: PendingVisibility, session: Questions) -> None:
    """Wait a moment for streamed transactions to become visible; most do within microseconds."""
    until = clock.monotonic() + _SETTLE_S
    while pending.transactions and clock.monotonic() < until:
        pending = pending.without_visible(session.transactions.visible()[0])
        clock.sleep(_SETTLE_POLL_S)
