"""The log reader: polls each database's greatest LSN and reads the spans up to it, in a thread of its own.

Owns the order in which databases take their turns, and the bound on what is held in memory. Only the thread
(`LogThread`) uses its connections.

    poll ──► plan (span_planner.py) ──► read (span_reader.py) ──► a span ──► take
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

from adapters.source.log.log_thread import LogThread
from adapters.sqlserver.server.position import LogPosition, position_of, positions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adapters.sqlserver.log.capture_instances import Instances
    from adapters.sqlserver.log.span_reader import ReadSpan
    from engine.model import CollectionId, Position

_HURRIED_S = 0.02
_HELD = 2
"""How many spans are read ahead of the one that is being encoded."""


@dataclass(frozen=True, slots=True)
class LogSlice:
    """What was read of one database: the position at its end, the rows, and their capture instances.

    `told_at_s` is the time of the last commit in Unix seconds by the server's clock, or the present if
    nothing is left to read: the capture job's delay is not our lag. That clock is `ahead_s` ahead of
    the job's monotonic one. `changed` says that the instances changed. `gaps` are tables some of whose
    changes can no longer be read.
    """

    end: LogPosition
    read: ReadSpan
    instances: Instances
    told_at_s: float
    changed: bool = False
    gaps: Mapping[CollectionId, str] = field(default_factory=dict)
    ahead_s: float = 0.0

    def lag_s(self, clock_s: float) -> float | None:
        """The age of the last commit at a time of the job's monotonic clock; None without rows."""
        return max(0.0, clock_s + self.ahead_s - self.told_at_s) if self.read.rows else None


class DatabaseLog(Protocol):
    """The change tables of one database."""

    def next(self, after: LogPosition) -> LogSlice | None:
        """The next span after a position; None when there is nothing. Raises SourceError."""

    def limit(self, share: float) -> None:
        """Limit each read to this share of the bounds."""

    def close(self) -> None:
        """Close the connection."""


@dataclass(frozen=True, slots=True)
class Span:
    """The change rows of one database in `(start, end]`. `database` is its number."""

    start: Position
    end: Position
    database: int
    taken: LogSlice

    @property
    def entries(self) -> int:
        """The number of change rows."""
        return self.taken.read.rows

    @property
    def silent(self) -> bool:
        """Whether only the position moved."""
        return not self.entries and not self.taken.changed and not self.taken.gaps

    @property
    def committed_at_s(self) -> float:
        """When the last change was committed; the present if nothing more had been captured."""
        return self.taken.told_at_s

    @property
    def position(self) -> LogPosition:
        """The database's position at the end."""
        return self.taken.end


class SqlServerLog:
    """The log of all databases from a position on. One thread may call `take`.

    After an error it can't be used again: close it and open another. `poll_s` is the pause between polls.
    `told` are spans that `take` returns first.
    """

    thread: ClassVar[type[LogThread]] = LogThread

    def __init__(
        self,
        databases: Sequence[DatabaseLog],
        start: Position,
        poll_s: float,
        monotonic: Callable[[], float],
        told: Sequence[Span] = (),
    ) -> None:
        self._databases, self._poll_s, self._monotonic = databases, poll_s, monotonic
        self._positions = list(positions_of(start))
        self._spans: list[Span] = list(told)
        self._hurry = False
        self._thread = self.thread(self._read, self._close_databases)
        self.wake = self._thread.wake
        self._thread.start()

    def take(self, timeout_s: float) -> Span | None:
        """The next span, waiting up to `timeout_s` for one."""
        with self._thread.changed:
            self._thread.wait_or_wake(lambda: self._spans, timeout_s)
            if self._spans:
                span = self._spans.pop(0)
                self._thread.changed.notify_all()
                return span
            self._thread.raise_failure()
            return None

    @property
    def ahead(self) -> tuple[int, int]:
        """The change rows that wait to be taken; their bytes are not known."""
        return sum(span.entries for span in tuple(self._spans)), 0

    def acknowledge(self, position: Position) -> None:
        """Do nothing: change tables are cleaned up by age, whether they were read or not."""

    def hurry(self, *, on: bool) -> None:
        """Poll again almost at once while a window waits for the stream."""
        with self._thread.changed:
            self._hurry = on
            self._thread.changed.notify_all()

    def limit(self, share: float) -> None:
        """Read less at once. Spans already read keep their size."""
        for database in self._databases:
            database.limit(share)

    def close(self) -> None:
        """End the thread. The next log reads again what was not taken."""
        self._thread.close()

    # The thread.

    def _read(self) -> None:
        if self._wait_for_room() and not self._read_round():
            self._pause()

    def _close_databases(self) -> None:
        for database in self._databases:
            database.close()

    def _read_round(self) -> bool:
        """Give every database its turn; whether any had rows."""
        moved = False
        for number, database in enumerate(self._databases):
            if not self._wait_for_room():
                return True
            taken = database.next(self._positions[number])
            if taken is not None:
                self._add(number, taken)
                moved = moved or taken.read.rows > 0
        return moved

    def _wait_for_room(self) -> bool:
        """Wait until fewer than `_HELD` spans are queued. Whether to continue; False when closing."""
        with self._thread.changed:
            self._thread.wait(lambda: len(self._spans) < _HELD)
            return not self._thread.closing

    def _pause(self) -> None:
        """Wait for the next poll, which comes soon while `hurry` is on."""
        with self._thread.changed:
            began_s = self._monotonic()
            self._thread.wait(lambda: self._hurry, self._poll_s)
            if self._hurry:
                rest_s = min(_HURRIED_S, self._poll_s) - (self._monotonic() - began_s)
                self._thread.wait(lambda: False, max(0.0, rest_s))

    def _add(self, number: int, taken: LogSlice) -> None:
        with self._thread.changed:
            start = position_of(self._positions)
            self._positions[number] = taken.end
            span = Span(start, position_of(self._positions), number, taken)
            last = self._spans[-1] if self._spans else None
            if last is not None and last.silent and last.database == number:
                self._spans[-1] = replace(span, start=last.start)
            else:
                self._spans.append(span)
            self._thread.changed.notify_all()
