"""Notifications: which there are, when, and with what in them. Most are about snapshots.

What happens to a snapshot is noted here as it happens, and waits for the next turn. It is written into that
turn, behind all events, and given to the other channels once the turn is saved. A turn that is done again
notes everything again, so `resume` drops what waits. Therefore each notification goes out with the turn that
it tells of, exactly once if the sink is.

The names are Debezium's, and so is their order: a snapshot has STARTED, then each collection is IN_PROGRESS
and has its TABLE_SCAN_COMPLETED, and last comes COMPLETED, unless ABORTED took what was left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from engine.errors import NoUsableKey, SignalError, UnknownCollection
from engine.events.record.notification import Notification
from engine.snapshot.queue_entry import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from engine.job.saved.recovery import Recovery
    from engine.model import ExecuteSnapshot, Part, Target
    from engine.ports.sink import PartWriter
    from engine.ports.source import SourceNotice
    from engine.snapshot.extent import Progress
    from engine.snapshot.queue import Snapshot
    from engine.snapshot.queue_entry import Table
    from engine.verify.verdict import Verdict

INITIAL: Final = "Initial Snapshot"
INCREMENTAL: Final = "Incremental Snapshot"
RECOVERY: Final = "Recovery"
"""What no connector of Debezium's has."""
MOST_NAMED: Final = 1_000
"""How many collections a notification names; a snapshot of more would make them too large for a topic."""
_NONE: Final = "<null>"


@dataclass(frozen=True, slots=True)
class Outlet:
    """Where notifications go, and what makes them.

    `connector` is the name that they carry. `now` is Unix time in seconds, `new_id` makes the ids of those
    that no signal asked for. `record` makes the sink's records, None if the sink gets none. `tell` gives them
    to the other channels; it never waits and raises nothing.
    """

    connector: str
    now: Callable[[], float]
    new_id: Callable[[], str]
    record: Callable[[Sequence[Notification]], pa.RecordBatch] | None
    tell: Callable[[Sequence[Notification]], None]


@dataclass(slots=True)
class Notices:
    """Notes what happens to snapshots, for one job. Without an `outlet` it notes nothing."""

    outlet: Outlet | None = None
    _left: dict[Request, dict[Target, None]] = field(default_factory=dict)
    _waiting: list[Notification] = field(default_factory=list)
    _written: int = 0
    _opened: bool = False
    _begun: Table | None = None

    # Turns.

    def resume(self, snapshot: Snapshot) -> None:
        """Continue from a saved queue. Drop what waits: it is noted again."""
        self._waiting, self._written, self._left = [], 0, {}
        if self.outlet is not None:
            for table in snapshot.tables:
                self._join(table)

    @property
    def waiting(self) -> bool:
        """Whether a turn is due for what was noted."""
        return bool(self._waiting)

    def write(self, writer: PartWriter, part: int) -> list[Part]:
        """Write what waits as this part of a turn, which is then to be saved. Nothing: no part."""
        self._written = len(self._waiting)
        if self.outlet is None or self.outlet.record is None or not self._waiting:
            return []
        return [writer.write(part, [self.outlet.record(self._waiting)])]

    def saved(self) -> None:
        """Give the other channels what was written, now that its turn is saved."""
        told, self._waiting = self._waiting[: self._written], self._waiting[self._written :]
        self._written, self._opened = 0, True
        if self.outlet is not None and told:
            self.outlet.tell(told)

    # What happens to the source.

    def told(self, notices: Iterable[SourceNotice]) -> None:
        """Note what a source has told with a span."""
        for notice in notices:
            self._note(notice.aggregate_type, notice.type, self._new_id(), **notice.data)

    def lost(self, recovery: Recovery) -> None:
        """Note that the log is lost, and will begin anew."""
        said = {"loss": str(recovery.loss), "reason": recovery.why, "since": recovery.since}
        self._note(RECOVERY, "STARTED", recovery.label, **said)

    # What happens to snapshots as a whole.

    def opened(self, before: Snapshot, after: Snapshot) -> None:
        """Note what opening the log did to the initial snapshot."""
        if self.outlet is None:
            return
        old, new = (
            {table.ticket: table for table in snapshot.tables if table.initial}
            for snapshot in (before, after)
        )
        if not old and not new and not self._opened:
            self._note(INITIAL, "SKIPPED", self.outlet.new_id())
        if old.keys() == new.keys():
            return
        if old:
            self._note(INITIAL, "ABORTED", self.outlet.new_id())
            for table in old.values():
                self._leave(table)
        for table in new.values():
            self._join(table)
        if new:
            self._note(INITIAL, "STARTED", self.outlet.new_id())

    def queued(self, command: ExecuteSnapshot) -> None:
        """Note that a signal's collections are in the queue."""
        if self.outlet is not None and command.targets:
            request = Request(command.signal, command.id)
            self._left[request] = dict.fromkeys(command.targets)
            self._note(INCREMENTAL, "STARTED", _id(request), data_collections=self._names(request))

    def appeared(self, table: Table, label: str, why: str) -> None:  # noqa: ARG002  no notification has it
        """Note that a collection is read under a label of the job's own."""
        request = Request(label, label)
        if self.outlet is not None:
            self._left.setdefault(request, {})[table.target] = None
            self._note(INCREMENTAL, "STARTED", label, data_collections=self._names(request))

    def paused(self, tables: Iterable[Table]) -> None:
        """Note that these are read no further until they are resumed."""
        for request, its in self._by_request(tables).items():
            self._note(INCREMENTAL, "PAUSED", _id(request), data_collections=_joined(its))

    def resumed(self, tables: Iterable[Table]) -> None:
        """Note that these are read further."""
        for request, its in self._by_request(tables).items():
            self._note(INCREMENTAL, "RESUMED", _id(request), data_collections=_joined(its))

    def stopped(self, tables: Sequence[Table], *, named: bool) -> None:
        """Note that these have left the queue, because a signal has `named` them or meant all."""
        for request, its in self._by_request(tables).items():
            data = {"data_collections": _joined(its)} if named else {}
            self._note(INCREMENTAL, "ABORTED", _id(request), **data)
        for table in tables:
            self._leave(table)

    # What happens to collections: a `SnapshotListener`, besides `appeared`.

    def started(self, table: Table) -> None:
        """Note that the first rows of a collection were read; of an empty one its end says all."""
        if self._knows(table) and (table.initial or (table.progress and table.progress.rows)):
            self._progressed(table)
            self._begun = table

    def progress(self, table: Table, percent: int) -> None:  # noqa: ARG002  the keys say it
        """Note that another tenth of a collection is read, unless its first rows are that tenth."""
        if self._knows(table) and not table.initial and table is not self._begun:
            self._progressed(table)

    def finished(self, table: Table, note: str = "") -> None:  # noqa: ARG002  for answers
        """Note that a collection was read completely."""
        empty = not (table.progress and table.progress.rows) and not table.initial
        self._scanned(table, "EMPTY" if empty else "SUCCEEDED")

    def failed(self, table: Table, error: Exception) -> None:
        """Note that a collection could not be read."""
        self._scanned(table, "SQL_EXCEPTION" if table.initial else _status(error))

    def verified(self, table: Table, verdict: Verdict) -> None:
        """Note that a collection was compared with its copy."""
        self._scanned(table, "ACCEPTED" if verdict.accepts else "REJECTED")

    def certified(self, table: Table, certificate: str) -> None:
        """Note the certificate of a collection that was read completely."""
        for request in table.requests if self._knows(table) else ():
            kind, named = (INITIAL, self._new_id()) if table.initial else (INCREMENTAL, _id(request))
            data = {"scanned_collection": str(table.target.collection), "certificate": certificate}
            self._note(kind, "CERTIFIED", named, **data)

    def excluded(self, table: Table) -> None:
        """Note that the settings leave a collection out that was to be read."""
        self._scanned(table, "SQL_EXCEPTION" if table.initial else "SKIPPED")

    def _progressed(self, table: Table) -> None:
        for request in table.requests:
            data = {
                "data_collections": self._names(request),
                "current_collection_in_progress": str(table.target.collection),
            }
            if table.initial:
                self._note(INITIAL, "IN_PROGRESS", self._new_id(), **data)
            else:
                keys = {"maximum_key": _maximum(table.progress), "last_processed_key": _last(table.progress)}
                self._note(INCREMENTAL, "IN_PROGRESS", _id(request), **data, **keys)

    def _scanned(self, table: Table, status: str) -> None:
        if not self._knows(table):
            return
        rows = table.progress.rows if table.progress else 0
        scanned = {"scanned_collection": str(table.target.collection)}
        for request in table.requests:
            data = {"data_collections": self._names(request), **scanned, "total_rows_scanned": str(rows)}
            if table.initial:
                # Debezium names nothing else of a collection that could not be read.
                its = scanned if status != "SUCCEEDED" else data
                self._note(INITIAL, "TABLE_SCAN_COMPLETED", self._new_id(), **its, status=status)
            else:
                self._note(INCREMENTAL, "TABLE_SCAN_COMPLETED", _id(request), **data, status=status)
        for request in self._leave(table):
            kind, named = (INITIAL, self._new_id()) if table.initial else (INCREMENTAL, _id(request))
            self._note(kind, "COMPLETED", named)

    # What is left of each request.

    def _knows(self, table: Table) -> bool:
        return any(table.target in self._left.get(request, ()) for request in table.requests)

    def _join(self, table: Table) -> None:
        for request in table.requests:
            self._left.setdefault(request, {})[table.target] = None

    def _leave(self, table: Table) -> list[Request]:
        """Remove an entry. Returns the requests of which nothing is left now."""
        over = []
        for request in table.requests:
            left = self._left.get(request)
            if left is None:
                continue
            left.pop(table.target, None)
            if not left:
                del self._left[request]
                over.append(request)
        return over

    def _names(self, request: Request) -> str:
        named = islice(self._left.get(request, ()), MOST_NAMED)
        return ",".join(str(target.collection) for target in named)

    def _by_request(self, tables: Iterable[Table]) -> dict[Request, list[Table]]:
        found: dict[Request, list[Table]] = {}
        for table in tables if self.outlet is not None else ():
            for request in table.requests:
                found.setdefault(request, []).append(table)
        return found

    def _new_id(self) -> str:
        return self.outlet.new_id() if self.outlet is not None else ""

    def _note(self, aggregate: str, type_: str, id_: str, **data: str) -> None:
        if self.outlet is None:
            return
        named = {"connector_name": self.outlet.connector, **data}
        self._waiting.append(Notification(id_, type_, aggregate, int(self.outlet.now() * 1000), named))


def _id(request: Request) -> str:
    """What its sender calls a signal; else where it stands."""
    return request.signal if request.id is None else request.id


def _joined(tables: Iterable[Table]) -> str:
    return ",".join(str(table.target.collection) for table in islice(tables, MOST_NAMED))


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
