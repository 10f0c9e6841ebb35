"""What the windows of an initial snapshot ask of the snapshot that they share, while it is held.

`slot_snapshot.py` opens it. `adapters/source/initial.py` says when it is opened and released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.postgres.events.source_block import ReadPosition
from engine.events.record.envelope import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from adapters.postgres.server.questions.questions import Questions
    from adapters.postgres.server.questions.snapshots import SnapshotExport
    from adapters.postgres.snapshot.initial import SlotTools
    from adapters.postgres.snapshot.slot_snapshot import HeldSnapshot
    from adapters.source.initial import InitialSnapshot
    from engine.job.saved.state import State
    from engine.model import CollectionId


class InitialView:
    """The shared snapshot, which may end at any time. Only the job's thread uses it."""

    def __init__(self, first: InitialSnapshot[HeldSnapshot], tools: SlotTools) -> None:
        self._first, self._tools = first, tools
        self._outdated: HeldSnapshot | None = None

    @property
    def snapshot_id(self) -> str:
        """The snapshot that is held; empty when none is held."""
        held = self._first.held
        return held.snapshot.exported.id if held else ""

    @property
    def session(self) -> Questions | None:
        """The session that holds it; None when none is held."""
        held = self._first.held
        return held.snapshot.session if held else None

    def covers(self, collection: CollectionId) -> bool:  # noqa: ARG002  the port's
        """Whether a table is locked; those of the initial snapshot are locked when it begins."""
        return True

    def statement(self, collection: CollectionId) -> str | None:
        """The SELECT that returns a table's rows; None for all of them."""
        return self._tools.statement(collection)

    def is_alive(self) -> bool:
        """Ask whether a snapshot is held by a session that is still alive."""
        held = self._first.held
        return held is not None and held.is_alive()

    @property
    def gave_way(self) -> bool:
        """Whether it was released for another session that waited for one of its locks."""
        held = self._first.held
        return held is not None and held.snapshot.gave_way

    def stops(self, reader: Callable[[], None]) -> None:
        """Register a reader's callback; another thread calls it when the snapshot gives way."""
        held = self._first.held
        if held is not None:
            held.snapshot.stops(reader)

    def read_position(self, exported: SnapshotExport) -> ReadPosition:
        """The position and time that READs of a window under this snapshot carry."""
        held = self._first.held
        if held is not None and held.snapshot.exported is exported:
            ts_ms, lsn = held.ts_ms, held.lsn
        else:
            ts_ms, lsn = self._tools.clock.now_ms, exported.horizon
        return ReadPosition(ts_ms, tx_id=exported.visibility.xmax, lsn=lsn, snapshot=PLAIN)

    # What changes what is held.

    def tick(self, state: State, *, reading: bool) -> None:
        """Release the snapshot once all is read in it, or if it gave way and no window is `reading` in it."""
        if self.gave_way and not reading:
            why = "the initial snapshot is given up: another session waited to change one of its tables"
            self._first.lose(why)
        self._first.tick(state)

    def outdate(self, collections: Collection[CollectionId], state: State) -> None:
        """Open no more windows in the snapshot if one of these is yet to be read.

        It may lack what their log lacks, as `blocking.py` explains.
        """
        unread = {table.target.collection for table in state.snapshot.tables if table.initial}
        if not unread.isdisjoint(collections):
            self._outdated = self._first.held

    def release_if_unusable(self) -> None:
        """Release the snapshot if its transaction has ended, or if it is outdated.

        Raises SourceError where no log follows.
        """
        held = self._first.held
        if held is not None and not held.is_alive():
            self._first.lose("the initial snapshot's transaction has ended")
        elif held is not None and held is self._outdated:
            self._first.lose("the initial snapshot is given up: changes of one of its tables are in no log")
