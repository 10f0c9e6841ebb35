"""Counts of snapshots: how many collections there were, how each ended, and for how long.

Initial and blocking snapshots are counted apart from incremental ones, as Debezium does. A snapshot in this
sense begins with the first collection in the queue and ends with the last one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from engine.model import CollectionId
    from engine.snapshot.extent import Advance
    from engine.snapshot.queue import Snapshot
    from engine.snapshot.queue_entry import Table
    from engine.verify.verdict import Verdict

MOST_NAMED: Final = 1_000
"""Of how many collections the rows are remembered once they have left the queue."""


@dataclass(slots=True)
class Course:
    """One kind of snapshots, from the first collection on. Times are Unix seconds.

    `read` and `emitted` are rows since the process began, and `last_s` is when the last ones were emitted.
    `rows` and `chunks` are those of collections that have left the queue. `aborted` collections were stopped
    or failed.
    """

    read: int = 0
    emitted: int = 0
    last_s: float | None = None
    begun_s: float | None = None
    ended_s: float | None = None
    total: int = 0
    finished: int = 0
    aborted: int = 0
    paused_since_s: float | None = None
    paused_before_s: float = 0.0
    rows: dict[CollectionId, int] = field(default_factory=dict)
    chunks: dict[CollectionId, int] = field(default_factory=dict)
    tickets: frozenset[int] = frozenset()

    @property
    def running(self) -> bool:
        """Whether anything is left."""
        return self.begun_s is not None and self.ended_s is None

    @property
    def completed(self) -> bool:
        """Whether it ended, with every collection read."""
        return self.ended_s is not None and not self.aborted

    def duration_s(self, now_s: float) -> float:
        """How long it has taken so far, or took."""
        if self.begun_s is None:
            return 0.0
        return max(0.0, (self.ended_s or now_s) - self.begun_s)

    def paused_s(self, now_s: float) -> float:
        """For how long it was paused."""
        return self.paused_before_s + (max(0.0, now_s - self.paused_since_s) if self.paused_since_s else 0.0)

    def remember(self, table: Table) -> None:
        """Remember the rows of a collection that leaves the queue."""
        collection, progress = table.target.collection, table.progress
        self.rows[collection] = progress.rows if progress else 0
        self.chunks[collection] = progress.chunks if progress else 0
        while len(self.rows) > MOST_NAMED:
            oldest = next(iter(self.rows))
            del self.rows[oldest], self.chunks[oldest]


@dataclass(slots=True)
class SnapshotTally:
    """Counts snapshots; a `SnapshotListener`. `failed_collections` counts those of any kind."""

    whole: Course = field(default_factory=Course)
    incremental: Course = field(default_factory=Course)
    failed_collections: int = 0
    _ended: list[tuple[Table, bool]] = field(default_factory=list)
    _rows: list[tuple[Course, int, int]] = field(default_factory=list)
    _mark: tuple[object, ...] = ()

    def of(self, table: Table) -> Course:
        """The course of an entry's kind."""
        return self.whole if table.target.as_initial else self.incremental

    def drop(self) -> None:
        """Forget what a turn that failed has said: it says it again."""
        self._ended, self._rows = [], []

    def add_rows(self, table: Table | None, advance: Advance) -> None:
        """Note what a window did for an entry."""
        if table is not None:
            self._rows.append((self.of(table), advance.rows, advance.emitted))

    def follow(self, snapshot: Snapshot, now_s: float) -> None:
        """Take a saved turn: what it said of collections, and the queue if entries have come or gone."""
        for table, whole in self._ended:
            course = self.of(table)
            course.finished += whole
            course.remember(table)
            self.failed_collections += not whole
        for course, read, emitted in self._rows:
            course.read += read
            course.emitted += emitted
            course.last_s = now_s
        self.drop()
        tables = snapshot.tables
        held = snapshot.all_paused
        mark = (len(tables), snapshot.next_ticket, held)
        if mark == self._mark:
            return
        self._mark = mark
        for course in (self.whole, self.incremental):
            tickets = frozenset(table.ticket for table in tables if self.of(table) is course)
            _follow(course, tickets, now_s, held=held)

    # What happens to collections: a `SnapshotListener`.

    def appeared(self, table: Table, label: str, why: str) -> None:
        """Do nothing: the queue says so."""

    def started(self, table: Table) -> None:
        """Do nothing: the queue says so."""

    def progress(self, table: Table, percent: int) -> None:
        """Do nothing: the queue says so."""

    def finished(self, table: Table, note: str = "") -> None:  # noqa: ARG002  for answers
        """Note a collection that was read completely."""
        self._ended.append((table, True))

    def verified(self, table: Table, verdict: Verdict) -> None:  # noqa: ARG002  for answers
        """Note a collection that was read completely, whatever was found."""
        self._ended.append((table, True))

    def failed(self, table: Table, error: Exception) -> None:  # noqa: ARG002  for answers
        """Note a collection that could not be read."""
        self._ended.append((table, False))


def _follow(course: Course, tickets: frozenset[int], now_s: float, *, held: bool) -> None:
    new = tickets - course.tickets
    if new and not course.running:
        course.begun_s, course.ended_s = now_s, None
        course.total = course.finished = course.aborted = 0
        course.paused_before_s, course.rows, course.chunks = 0.0, {}, {}
    course.total += len(new)
    course.tickets = tickets
    if course.running:
        course.aborted = max(0, course.total - len(tickets) - course.finished)
    if course.running and not tickets:
        course.ended_s = now_s
    if held and tickets and course.paused_since_s is None:
        course.paused_since_s = now_s
    elif not (held and tickets) and course.paused_since_s is not None:
        course.paused_before_s, course.paused_since_s = course.paused_s(now_s), None
