"""Notifications: which there are, when, and with what in them. Most are about snapshots.

What happens to a snapshot is noted here as it happens. `outbox.py` keeps it until its turn is saved,
`collection_notices.py` notes what happens to single collections.

The names are Debezium's, and so is their order: a snapshot has STARTED, then each collection is IN_PROGRESS
and has its TABLE_SCAN_COMPLETED, and last comes COMPLETED, unless ABORTED took what was left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.job.reports.collection_notices import INCREMENTAL, INITIAL, CollectionNotices
from engine.job.reports.open_requests import OpenRequests, named, request_id
from engine.job.reports.outbox import Outbox
from engine.snapshot.queue_entry import Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.job.reports.outbox import Outlet
    from engine.job.saved.recovery import Recovery
    from engine.model import ExecuteSnapshot
    from engine.ports.source import SourceNotice
    from engine.snapshot.queue import Snapshot
    from engine.snapshot.queue_entry import Table

RECOVERY: Final = "Recovery"
"""What no connector of Debezium's has."""


class Notices:
    """Notes what happens to the source and to snapshots as a whole, for one job."""

    def __init__(self, outlet: Outlet | None = None) -> None:
        self.outbox = Outbox(outlet)
        self._requests = OpenRequests()
        self.collections = CollectionNotices(self.outbox, self._requests)

    def resume(self, snapshot: Snapshot) -> None:
        """Continue from a saved queue. Drop what waits: it is noted again."""
        self.outbox.drop()
        self._requests.clear()
        if self.outbox.outlet is not None:
            for table in snapshot.tables:
                self._requests.join(table)

    # What happens to the source.

    def note_from_source(self, notices: Iterable[SourceNotice]) -> None:
        """Note what a source has told with a span."""
        for notice in notices:
            self.outbox.note(notice.aggregate_type, notice.type, self.outbox.new_id(), **notice.data)

    def lost(self, recovery: Recovery) -> None:
        """Note that the log is lost, and will begin anew."""
        data = {"loss": str(recovery.loss), "reason": recovery.why, "since": recovery.since}
        self.outbox.note(RECOVERY, "STARTED", recovery.label, **data)

    # What happens to snapshots as a whole.

    def opened(self, before: Snapshot, after: Snapshot) -> None:
        """Note what opening the log did to the initial snapshot."""
        if self.outbox.outlet is None:
            return
        old, new = (
            {table.ticket: table for table in snapshot.tables if table.initial}
            for snapshot in (before, after)
        )
        if not old and not new and not self.outbox.has_saved:
            self.outbox.note(INITIAL, "SKIPPED", self.outbox.new_id())
        if old.keys() == new.keys():
            return
        if old:
            self.outbox.note(INITIAL, "ABORTED", self.outbox.new_id())
            for table in old.values():
                self._requests.leave(table)
        for table in new.values():
            self._requests.join(table)
        if new:
            self.outbox.note(INITIAL, "STARTED", self.outbox.new_id())

    def queued(self, command: ExecuteSnapshot) -> None:
        """Note that a signal's collections are in the queue."""
        if self.outbox.outlet is not None and command.targets:
            request = Request(command.signal, command.id)
            self._requests.begin(request, command.targets)
            names = self._requests.names(request)
            self.outbox.note(INCREMENTAL, "STARTED", request_id(request), data_collections=names)

    def paused(self, tables: Iterable[Table]) -> None:
        """Note that these are read no further until they are resumed."""
        for request, names in self._by_request(tables).items():
            self.outbox.note(INCREMENTAL, "PAUSED", request_id(request), data_collections=names)

    def resumed(self, tables: Iterable[Table]) -> None:
        """Note that these are read further."""
        for request, names in self._by_request(tables).items():
            self.outbox.note(INCREMENTAL, "RESUMED", request_id(request), data_collections=names)

    def stopped(self, tables: Sequence[Table], *, by_name: bool) -> None:
        """Note that these have left the queue, because a signal named them (`by_name`) or meant all."""
        for request, names in self._by_request(tables).items():
            data = {"data_collections": names} if by_name else {}
            self.outbox.note(INCREMENTAL, "ABORTED", request_id(request), **data)
        for table in tables:
            self._requests.leave(table)

    def _by_request(self, tables: Iterable[Table]) -> dict[Request, str]:
        """The names of these collections, by request."""
        found: dict[Request, list[Table]] = {}
        for table in tables if self.outbox.outlet is not None else ():
            for request in table.requests:
                found.setdefault(request, []).append(table)
        return {request: named(table.target for table in its) for request, its in found.items()}
