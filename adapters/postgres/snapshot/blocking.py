"""The snapshot that a blocking snapshot reads on PostgreSQL, and the log that waits for it.

All windows of a blocking signal share one exported snapshot S, and the stream waits at its position H:

    stream    ── a ── b ── n ── H ┃ waits … ┃ ── later entries ──►
    view           S              ┃ READs   ┃

The log is held before S is taken, and then let on to H and no further. S contains a and b. A transaction n
that commits between S and H, or that is in the log but not visible yet, is streamed and not in S. So what
such entries touch is collected from the moment S is taken, for all tables, since later windows need it, too.
With that, the merge rule holds for each window, whether the hold lasts or not.

If a row of the signal table may ask to stop it, the log is let on to a later position, behind that row. What
comes with it supersedes like n.

The view may be lost: by a session that waits for a table, or with the connection. What is left is then read
in another view, at another position. Keys to be read again need rows newer than S: they get a snapshot of
their own.

The view may also be outdated. If the log is found to lack changes of one of its tables, S may not show them
either: nobody knows when they were made. That table is read from scratch in another view, since a snapshot
that completes is to close the gap.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from adapters.postgres.log import pending_visibility
from adapters.postgres.server.position import position_at
from adapters.postgres.server.visibility import format_lsn
from adapters.postgres.snapshot import superseded_keys
from adapters.postgres.snapshot.watermark import ExportedSnapshot
from adapters.source.signals.stop_watch import StopWatch
from engine.errors import InvariantError, TableBusy
from engine.snapshot.merge import SupersededKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from adapters.postgres.events.decode import DecodedPart
    from adapters.postgres.log.pending_visibility import Pairs
    from adapters.postgres.log.reader import PostgresLog
    from adapters.postgres.log_session import LogSession
    from adapters.postgres.server.questions.questions import Questions
    from adapters.postgres.server.session_pool import Sessions
    from adapters.postgres.server.visibility import Visibility
    from adapters.postgres.server.watches.lock_watch import LockWatch
    from adapters.postgres.stream_state import StreamState
    from engine.job.saved.state import State
    from engine.model import CollectionId, Position
    from engine.snapshot.queue_entry import Table

_log = logging.getLogger("adapters")


@dataclass(slots=True)
class BlockingView:
    """A held snapshot of `tables`, by oid, and what entries that are not in it have superseded so far.

    The stream waits at `waits_at`, an LSN: the snapshot's position or a later one. No more windows open in an
    `outdated` view.
    """

    held: ExportedSnapshot
    tables: Mapping[int, CollectionId]
    waits_at: int
    superseded: SupersededKeys = field(default_factory=SupersededKeys)
    outdated: bool = False

    def is_usable(self) -> bool:
        """Ask whether windows may still open in it."""
        return self.held.is_alive() and not self.outdated

    @property
    def visibility(self) -> Visibility:
        """What the snapshot shows."""
        return self.held.exported.visibility

    def moved_keys(self, untold: Collection[int]) -> dict[CollectionId, Pairs]:
        """The old and new keys, by table, of rows that lack a value and may have moved behind the snapshot.

        Rows of `untold` relations may have moved even where both keys are equal.
        """
        return {
            name: pending_visibility.moved_pairs(pairs, untold=oid in untold)
            for oid, name in self.tables.items()
            if (pairs := self.superseded.lacking.get(name))
        }

    def note_span(self, decoded: Sequence[DecodedPart]) -> None:
        """Note what a span supersedes."""
        self.superseded |= superseded_keys.of_entries(decoded, self.visibility, self.tables)


class BlockingViews:
    """Opens a view when one is needed, and releases it when no entry needs it. Used by the job's thread.

    `signals` is the signal table, None if no signals come from it. `clock` counts seconds.
    """

    def __init__(self, watch: LockWatch, signals: CollectionId | None, clock: Callable[[], float]) -> None:
        self._watch, self._signals, self._clock = watch, signals, clock
        self._stops: StopWatch | None = None
        self._questions: Questions | None = None
        self._pool: Sessions | None = None
        self._streamed: StreamState | None = None
        self._log_reader: PostgresLog | None = None
        self._wanted: dict[CollectionId, None] = {}
        self.view: BlockingView | None = None

    def attach(self, session: LogSession, streamed: StreamState, log: PostgresLog | None) -> None:
        """Work with another opening of the log."""
        self.release()
        self._pool, self._questions = session.pool, session.questions
        self._streamed, self._log_reader = streamed, log
        if self._signals is not None:
            self._stops = StopWatch(partial(session.questions.signals.stops, self._signals), self._clock)

    @property
    def snapshot_id(self) -> str:
        """The id of the snapshot that is held; empty when none is."""
        return self.view.held.exported.id if self.view else ""

    @property
    def session(self) -> Questions | None:
        """The session that holds it; None when none is held."""
        return self.view.held.session if self.view else None

    def covers(self, collection: CollectionId) -> bool:
        """Whether the view has the table."""
        return self.view is not None and collection in self.view.tables.values()

    def tick(self, state: State, *, reading: bool) -> None:
        """Note what is to be read. Release a view that nothing needs, or one not usable and not `reading`.

        Other windows may already wait for the stream then. The next blocking snapshot may use the same view,
        since the stream has not moved on.
        """
        leading: tuple[Table, ...] = state.snapshot.leading
        self._wanted = {table.target.collection: None for table in leading if table.blocking}
        if self.view is None:
            return
        if not self._wanted:
            _log.info("the blocking snapshot is complete; the stream continues")
            self.release()
        elif not reading and not self.view.is_usable():
            why = "is outdated" if self.view.outdated else "has ended"
            _log.warning("the blocking snapshot's view %s; the rest is read in another one", why)
            self.release()
        elif self._stops and self.waits(state.position) and self._stops.look():
            self._go_on(self.view)

    def _go_on(self, view: BlockingView) -> None:
        """Let the stream come to the end of the log, and bring a row that may ask for a stop."""
        if self._questions is None:
            raise InvariantError("a blocking snapshot before the log was opened")
        view.waits_at = self._questions.transactions.insert_end()
        if self._log_reader is not None:
            self._log_reader.hold(view.waits_at, lasting=True)
        _log.info(
            "the signal table may ask to stop; the stream continues up to %s", format_lsn(view.waits_at)
        )

    def waits(self, position: Position | None) -> bool:
        """Whether the stream stays where it is: it has reached the view."""
        view = self.view
        return view is not None and position is not None and position >= position_at(view.waits_at)

    def open(self, found: Mapping[CollectionId, int]) -> BlockingView:
        """The view of these tables, given with their oids. Raises TableBusy, SchemaChanged, SourceError."""
        if self.view is not None and self.view.is_usable() and set(found.values()) <= set(self.view.tables):
            return self.view
        self.release()
        log, pool, streamed = self._log_reader, self._pool, self._streamed
        if pool is None or streamed is None:
            raise InvariantError("a blocking snapshot before the log was opened")
        if self._stops is not None:
            self._stops.begin()
        if log is not None:
            log.hold(lasting=True)
        try:
            view = self._opened(found, pool, streamed)
        except BaseException:
            self._let_go()
            raise
        self.view = view
        if log is not None:
            log.hold(view.waits_at, lasting=True)
        _log.info("the stream waits at %s for a blocking snapshot", format_lsn(view.waits_at))
        return view

    def _opened(
        self, found: Mapping[CollectionId, int], pool: Sessions, streamed: StreamState
    ) -> BlockingView:
        held = ExportedSnapshot(pool, list(found), watch=self._watch)
        names = {oid: name for name, oid in found.items()}
        pending = streamed.pending = streamed.pending.without_visible(held.exported.visibility)
        for oid, name in names.items():
            if pending.everything_of(oid):
                held.close()
                raise TableBusy(
                    f"a transaction of more than {pending_visibility.KEPT_KEYS} rows is not visible yet",
                    where=name,
                    hint="it may wait for a standby that the server's synchronous_standby_names asks for",
                )
        superseded = superseded_keys.of_pending(pending, names)
        return BlockingView(held, names, held.exported.horizon, superseded)

    def outdate(self, collections: Collection[CollectionId]) -> None:
        """Open no more windows in the view if it has one of these: it may lack what their log lacks."""
        if self.view is not None and not set(collections).isdisjoint(self.view.tables.values()):
            self.view.outdated = True

    def release(self) -> None:
        """Release the snapshot with its locks, and the log."""
        if self.view is not None:
            self.view.held.close()
            self.view = None
            self._let_go()

    def _let_go(self) -> None:
        if self._log_reader is not None:
            self._log_reader.let_go()

    def want(self, collections: Iterable[CollectionId]) -> None:
        """Note tables of a blocking snapshot that begins in this turn."""
        self._wanted |= dict.fromkeys(collections)

    @property
    def wanted(self) -> Sequence[CollectionId]:
        """The tables of the blocking snapshot in progress."""
        return list(self._wanted)
