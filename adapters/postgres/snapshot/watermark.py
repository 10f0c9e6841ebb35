"""What a window knows about the log: an exported snapshot, and the position H that covers all of it.

All readers share one snapshot, in which they read the window's rows. The rows contain a streamed transaction
exactly if the snapshot shows its id. H is taken after the snapshot: once the stream has passed H, it has
passed every change that the rows can contain. Nothing is written to the source.

`SignalRows` is the alternative that Debezium's users know: an open and a close row in the signal table. The
chunks are still read in one snapshot, so visibility still decides what they contain. The rows only decide
when the window may close.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from adapters.postgres.server.position import position_at
from adapters.postgres.server.visibility import format_lsn
from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from adapters.postgres.server.questions.questions import Questions
    from adapters.postgres.server.questions.signal_rows import SignalTables
    from adapters.postgres.server.questions.snapshots import SnapshotExport
    from adapters.postgres.server.questions.transactions import Transactions
    from adapters.postgres.server.session_pool import Sessions
    from adapters.postgres.server.watches.lock_watch import LockWatch, WatchedSession
    from engine.model import CollectionId, Position
    from signals.window_rows import WindowRows

_log = logging.getLogger("adapters")
_PUSH_AFTER_S = 0.02


@dataclass(frozen=True, slots=True)
class HoldSettings:
    """How to hold a snapshot: how long to wait for a lock, and the snapshot to adopt ("" for a new one)."""

    lock_timeout_ms: int | None = None
    adopt: str = ""


class ExportedSnapshot:
    """A transaction that holds a snapshot, and ACCESS SHARE locks on the window's tables.

    The locks keep out what is not MVCC-safe (a rewriting ALTER TABLE, a TRUNCATE) for as long as the window
    lasts. `watch` makes the transaction give way to sessions that wait for the locks. `before` is called with
    the session before its transaction begins.
    """

    def __init__(
        self,
        sessions: Sessions,
        tables: Sequence[CollectionId],
        holding: HoldSettings = HoldSettings(),
        watch: LockWatch | None = None,
        before: Callable[[Questions], object] = lambda _session: None,
    ) -> None:
        self._sessions, self._watch, self._closed = sessions, watch, False
        self._watched: WatchedSession | None = None
        self.session = sessions.take()
        try:
            before(self.session)
            self.exported = self._export(tables, holding)
        except SourceError:
            self.close()
            raise
        if watch is not None:
            self._watched = watch.watch(self.session.pid)

    def _export(self, tables: Sequence[CollectionId], holding: HoldSettings) -> SnapshotExport:
        snapshots = self.session.snapshots
        snapshots.begin(holding.lock_timeout_ms)
        for table in tables:
            # This must come before the snapshot is taken.
            snapshots.lock(table)
        if holding.adopt:
            snapshots.adopt(holding.adopt)
        return snapshots.export()

    @property
    def gave_way(self) -> bool:
        """Whether it was ended for another session that waited for its locks."""
        return self._watched is not None and self._watched.gave_way

    def stops(self, reader: Callable[[], None]) -> None:
        """Register a reader's callback; another thread calls it when the locks are given up."""
        if self._watched is not None:
            self._watched.readers.append(reader)
            if self._watched.gave_way:
                reader()

    def is_alive(self) -> bool:
        """Ask whether the transaction still exists."""
        return not self._closed and not self.gave_way and self.session.snapshots.ping()

    def close(self) -> None:
        """End the transaction. Readers that have adopted the snapshot keep it."""
        if not self._closed:
            self._closed = True
            if self._watch is None or self._watched is None or self._watch.forget(self._watched):
                self._sessions.give(self.session)
            else:
                # The lock watch may still end this session, so it must not serve another window.
                self.session.close()


class GivesWay(Protocol):
    """What holds locks on the tables being read."""

    @property
    def gave_way(self) -> bool:
        """Whether the locks were released for another session that waited for them."""

    def stops(self, reader: Callable[[], None]) -> None:
        """Register a reader's callback; another thread calls it when that happens."""

    def is_alive(self) -> bool:
        """Ask whether the locks are still held."""


class Watermark(Protocol):
    """When a window may close.

    The snapshot's `visibility` says which streamed transactions its rows contain.
    """

    @property
    def exported(self) -> SnapshotExport:
        """The snapshot that the window's rows are read in."""

    def note_signal_rows(self, inserted: Collection[str | None], deleted: Collection[str | None]) -> None:
        """Note the ids of the signal table's rows that a span has inserted and deleted."""

    def seal(self) -> None:
        """Note that all rows have been read."""

    def push(self, position: Position) -> None:
        """Bring the log to the watermark if the stream stays at `position`, short of it."""

    def reached(self, position: Position) -> bool:
        """Whether the stream has passed every change that the rows may contain."""

    def close(self) -> None:
        """Release the snapshot and its locks."""


@dataclass(frozen=True, slots=True)
class AtBeginning:
    """A window in the snapshot that the log begins with: nothing that its rows contain is in the log."""

    exported: SnapshotExport

    def note_signal_rows(self, _inserted: Collection[str | None], _deleted: Collection[str | None]) -> None:
        """Do nothing."""

    def seal(self) -> None:
        """Do nothing."""

    def push(self, position: Position) -> None:
        """Do nothing."""

    def reached(self, _position: Position) -> bool:
        """True at once."""
        return True

    def close(self) -> None:
        """Do nothing: the snapshot is held for later windows."""


class VisibilityWatermark:
    """The default: closes once the stream has passed H. Writes no row.

    On an idle server the stream may stop short of H, because a walsender sends only flushed log. Then an
    empty transaction is committed, which flushes it.
    """

    def __init__(
        self,
        held: ExportedSnapshot,
        transactions: Transactions,
        clock: Callable[[], float],
        *,
        shared: bool = False,
    ) -> None:
        self._held, self._transactions, self._clock = held, transactions, clock
        self._shared = shared
        self._push_at = clock() + _PUSH_AFTER_S

    @property
    def exported(self) -> SnapshotExport:
        """The snapshot that the window's rows are read in."""
        return self._held.exported

    def note_signal_rows(self, _inserted: Collection[str | None], _deleted: Collection[str | None]) -> None:
        """Do nothing: no row is written."""

    def seal(self) -> None:
        """Do nothing: H was taken when the window opened."""

    def push(self, position: Position) -> None:
        """Have the server flush its log if the stream takes long to pass H."""
        if self.reached(position) or self._clock() < self._push_at:
            return
        _log.debug("flushing the log up to %s", format_lsn(self._held.exported.horizon))
        self._transactions.flush_log()
        self._push_at = self._clock() + 50 * _PUSH_AFTER_S

    def reached(self, position: Position) -> bool:
        """Whether the stream has passed H."""
        return position >= position_at(self._held.exported.horizon)

    def close(self) -> None:
        """Release the snapshot, unless other windows share it."""
        if not self._shared:
            self._held.close()


@dataclass(frozen=True, slots=True)
class SignalTable:
    """The table that window rows are written to, through `rows`. `delete` removes an open row again."""

    id: CollectionId
    rows: SignalTables
    delete: bool


class SignalRows:
    """A `snapshot-window-open` and a `snapshot-window-close` row; closes once the latter is streamed.

    With `delete` the open row is deleted instead of writing a close row, so that the signal table does not
    grow. Rows carry the window's id, so those of a window abandoned in a crash mean nothing to another
    window. `now_ms` is the time.
    """

    def __init__(
        self,
        sessions: Sessions,
        tables: Sequence[CollectionId],
        marks: WindowRows,
        signals: SignalTable,
        now_ms: Callable[[], int],
        watch: LockWatch | None = None,
    ) -> None:
        self._rows, self._delete, self._marks = signals.rows, signals.delete, marks
        self._table, self._now_ms = signals.id, now_ms
        self._closed = False
        self._rows.mark(self._table, marks.opening())
        self._held = ExportedSnapshot(sessions, tables, watch=watch)

    @property
    def exported(self) -> SnapshotExport:
        """The snapshot that the window's rows are read in."""
        return self._held.exported

    @property
    def held(self) -> ExportedSnapshot:
        """The exporting transaction."""
        return self._held

    def seal(self) -> None:
        """Write the close row, or delete the open one."""
        if self._delete:
            self._rows.delete(self._table, self._marks.open_id)
        else:
            self._rows.mark(self._table, self._marks.closing(self._now_ms()))

    def note_signal_rows(self, inserted: Collection[str | None], deleted: Collection[str | None]) -> None:
        """Note the ids of the signal table's rows that a span has inserted and deleted."""
        if self._delete:
            self._closed |= self._marks.open_id in deleted
        else:
            self._closed |= self._marks.close_id in inserted

    def push(self, position: Position) -> None:
        """Do nothing: the closing row's commit flushes the log."""

    def reached(self, _position: Position) -> bool:
        """Whether the closing row has been streamed."""
        return self._closed

    def close(self) -> None:
        """Release the snapshot."""
        self._held.close()
