"""Notifications of what happens to each collection, and of requests that end with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.errors import NoUsableKey, SignalError, UnknownCollection
from engine.job.reports.open_requests import request_id
from engine.snapshot.queue_entry import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.job.reports.open_requests import OpenRequests
    from engine.job.reports.outbox import Outbox
    from engine.snapshot.extent import Progress
    from engine.snapshot.queue_entry import Table
    from engine.verify.verdict import Verdict

INITIAL: Final = "Initial Snapshot"
INCREMENTAL: Final = "Incremental Snapshot"
_NONE: Final = "<null>"


@dataclass(slots=True)
class CollectionNotices:
    """A `SnapshotListener` that notes what happens to the collections of open requests."""

    _outbox: Outbox
    _requests: OpenRequests
    _begun: Table | None = None

    def appeared(self, table: Table, label: str, why: str) -> None:  # noqa: ARG002  no notification has it
        """Note that a collection is read under a label of the job's own."""
        if self._outbox.outlet is not None:
            request = Request(label, label)
            self._requests.add(request, table.target)
            names = self._requests.names(request)
            self._outbox.note(INCREMENTAL, "STARTED", label, data_collections=names)

    def started(self, table: Table) -> None:
        """Note that the first rows of a collection were read; of an empty one its end says all."""
        if self._requests.has(table) and (table.initial or (table.progress and table.progress.rows)):
            self._note_progress(table)
            self._begun = table

    def progress(self, table: Table, percent: int) -> None:  # noqa: ARG002  the keys say it
        """Note that another tenth of a collection is read, unless its first rows are that tenth."""
        if self._requests.has(table) and not table.initial and table is not self._begun:
            self._note_progress(table)

    def finished(self, table: Table, note: str = "") -> None:  # noqa: ARG002  for answers
        """Note that a collection was read completely."""
        empty = not (table.progress and table.progress.rows) and not table.initial
        self._note_end(table, "EMPTY" if empty else "SUCCEEDED")

    def failed(self, table: Table, error: Exception) -> None:
        """Note that a collection could not be read."""
        self._note_end(table, "SQL_EXCEPTION" if table.initial else _status(error))

    def verified(self, table: Table, verdict: Verdict) -> None:
        """Note that a collection was compared with its copy."""
        self._note_end(table, "ACCEPTED" if verdict.accepts else "REJECTED")

    def certified(self, table: Table, certificate: str) -> None:
        """Note the certificate of a collection that was read completely."""
        for request in table.requests if self._requests.has(table) else ():
            data = {"scanned_collection": str(table.target.collection), "certificate": certificate}
            self._note(table, request, "CERTIFIED", data)

    def excluded(self, table: Table) -> None:
        """Note that the settings leave a collection out that was to be read."""
        self._note_end(table, "SQL_EXCEPTION" if table.initial else "SKIPPED")

    def _note_progress(self, table: Table) -> None:
        for request in table.requests:
            data = {
                "data_collections": self._requests.names(request),
                "current_collection_in_progress": str(table.target.collection),
            }
            if not table.initial:
                data |= {
                    "maximum_key": _maximum(table.progress),
                    "last_processed_key": _last(table.progress),
                }
            self._note(table, request, "IN_PROGRESS", data)

    def _note_end(self, table: Table, status: str) -> None:
        if not self._requests.has(table):
            return
        rows = table.progress.rows if table.progress else 0
        scanned = {"scanned_collection": str(table.target.collection)}
        for request in table.requests:
            names = {"data_collections": self._requests.names(request)}
            data = {**names, **scanned, "total_rows_scanned": str(rows)}
            if table.initial and status != "SUCCEEDED":
                data = scanned  # Debezium names nothing else of a collection that could not be read
            self._note(table, request, "TABLE_SCAN_COMPLETED", {**data, "status": status})
        for request in self._requests.leave(table):
            self._note(table, request, "COMPLETED", {})

    def _note(self, table: Table, request: Request, type_: str, data: dict[str, str]) -> None:
        """Note it of an entry's request. Those of the initial snapshot get ids of their own."""
        if table.initial:
            self._outbox.note(INITIAL, type_, self._outbox.new_id(), **data)
        else:
            self._outbox.note(INCREMENTAL, type_, request_id(request), **data)


def _status(error: Exception) -> str:
    """Why a collection was not read, in Debezium's words."""
    match error:
        case NoUsableKey():
            return "NO_PRIMARY_KEY"
        case UnknownCollection():
            return "UNKNOWN_SCHEMA"
        case SignalError():
            return "SKIPPED"
        case _:
            return "SQL_EXCEPTION"


def _maximum(progress: Progress | None) -> str:
    """The greatest key when the collection was measured; small collections are read without one."""
    if progress is None:
        return _NONE
    if progress.extent.greatest is None and progress.extent.span is not None:
        return str(progress.extent.span[1])
    return _key(progress.extent.greatest)


def _last(progress: Progress | None) -> str:
    """The key up to which everything is read."""
    if progress is None:
        return _NONE
    return _key(progress.left[0].after) if progress.left else _maximum(progress)


def _key(key: Sequence[str | None] | None) -> str:
    return _NONE if key is None else ",".join(_NONE if text is None else text for text in key)
