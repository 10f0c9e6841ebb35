"""The log reader: collects the change stream's batches into spans, in a thread of its own (`LogThread`).

Owns the bounds on what is held in memory. It does not decode events. Only the thread uses the stream.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from adapters.mongodb.log.position import event_position, marked, time_of
from adapters.source.log.log_thread import LogThread

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.mongodb.log.stream import Batch, ChangeStream
    from engine.model import Position

_HURRIED_AWAIT_MS = 5


@dataclass(frozen=True, slots=True)
class LogBounds:
    """How much of the log is held at once and fetched at a time, and how long the server may wait."""

    span_rows: int = 200_000
    span_bytes: int = 64 << 20
    batch_rows: int = 10_000
    await_ms: int = 100


@dataclass(slots=True)
class Polls:
    """How the stream was asked, over all its sessions: milliseconds of the last polls, and empty ones."""

    last_with_events_ms: float = 0.0
    last_empty_ms: float = 0.0
    empty: int = 0

    def note(self, batch: Batch, took_s: float) -> None:
        """Note an answer."""
        if batch.changes:
            self.last_with_events_ms = took_s * 1000
        else:
            self.last_empty_ms = took_s * 1000
            self.empty += 1


@dataclass(frozen=True, slots=True)
class Span:
    """The change events of `(start, end]`, in the batches that they came in.

    The cluster's clock is `ahead_s` ahead of the job's monotonic one; None if unknown.
    """

    start: Position
    end: Position
    batches: tuple[tuple[bytes, ...], ...]
    ahead_s: float | None = None

    @property
    def entries(self) -> int:
        """The number of change events."""
        return sum(map(len, self.batches))

    @property
    def silent(self) -> bool:
        """Whether only the position moved."""
        return not self.batches

    @property
    def committed_at_s(self) -> float:
        """When the last change was committed, in whole seconds, as cluster times are."""
        return float(time_of(self.end)[0])

    def lag_s(self, clock_s: float) -> float | None:
        """The age of the last change at a time of the job's monotonic clock, by the cluster's clock."""
        if self.silent or self.ahead_s is None:
            return None
        return max(0.0, clock_s + self.ahead_s - self.committed_at_s)


class MongoLog:
    """The change stream from where it was opened. One thread may call `take`.

    After an error it can't be used again: close it and open another. `polls` counts the answers.

    A simulated log puts its own in the place of `thread`.
    """

    thread: ClassVar[type[LogThread]] = LogThread

    def __init__(
        self,
        stream: ChangeStream,
        start: Position,
        monotonic: Callable[[], float],
        bounds: LogBounds = LogBounds(),
        polls: Polls | None = None,
    ) -> None:
        self._stream, self._bounds, self._polls = stream, bounds, polls or Polls()
        self._monotonic = monotonic
        self._start = self._end = start
        self._batches: list[tuple[bytes, ...]] = []
        self._rows = self._bytes = 0
        self._ahead_s: float | None = None
        self._hurry, self._share = False, 1.0
        self._held_at: tuple[int, int] | None = None
        self.held_back = False
        """Whether an event waits behind the time given to `hold`."""
        self._thread = self.thread(self._read, stream.close)
        self.wake = self._thread.wake
        self._thread.start()

    def take(self, timeout_s: float) -> Span | None:
        """What has come since the last call, waiting up to `timeout_s` for something."""
        with self._thread.changed:
            self._thread.wait_or_wake(self._has_moved, timeout_s)
            self._thread.raise_failure()
            if not self._has_moved():
                return None
            if self._held_at is not None and (later := self._later_than(self._held_at)):
                return self._up_to(later)
            span = Span(self._start, self._end, tuple(self._batches), self._ahead_s)
            self._start, self._batches, self._rows, self._bytes = self._end, [], 0, 0
            self._thread.changed.notify_all()
            return span

    def hold(self, time: tuple[int, int]) -> None:
        """From now on, hand out no event later than this cluster time."""
        with self._thread.changed:
            self._held_at, self.held_back = time, False

    def let_go(self) -> None:
        """Hand out later events again."""
        with self._thread.changed:
            self._held_at, self.held_back = None, False

    def _later_than(self, time: tuple[int, int]) -> list[tuple[bytes, ...]]:
        """The events behind a cluster time, in batches."""
        later: list[tuple[bytes, ...]] = []
        for batch in self._batches:
            first = 0 if later else bisect_right(batch, time, key=_time_of)
            later += [batch[first:]] if first < len(batch) else []
        return later

    def _up_to(self, later: list[tuple[bytes, ...]]) -> Span | None:
        """The events before those, if there are any."""
        self.held_back = True
        behind = sum(map(len, later))
        changes = tuple(change for batch in self._batches for change in batch)
        taken = changes[: len(changes) - behind]
        if not taken:
            return None
        # The next event is later, so all of this time have come.
        end = marked(event_position(taken[-1]), whole=True)
        span = Span(self._start, end, (taken,), self._ahead_s)
        self._start, self._batches, self._rows = end, later, behind
        self._bytes = sum(len(change) for batch in later for change in batch)
        self._thread.changed.notify_all()
        return span

    def _has_moved(self) -> bool:
        return self._end > self._start

    @property
    def ahead(self) -> tuple[int, int]:
        """The change events and their bytes that wait to be taken."""
        return self._rows, self._bytes

    def acknowledge(self, position: Position) -> None:
        """Do nothing: the oplog keeps what it has room for, whether it was read or not."""

    def hurry(self, *, on: bool) -> None:
        """Poll again almost at once while a window waits for the stream."""
        self._hurry = on

    def limit(self, share: float) -> None:
        """Hold less of the stream. What is held already goes into one span."""
        with self._thread.changed:
            self._share = share
            self._thread.changed.notify_all()

    def close(self) -> None:
        """End the stream. The next one gets again what was not taken."""
        self._thread.close()

    # The thread.

    def _read(self) -> None:
        """Add the next batch as soon as the span's bounds allow more."""
        with self._thread.changed:
            self._thread.wait(self._has_room)
        if self._thread.closing:
            return
        await_ms = min(self._bounds.await_ms, _HURRIED_AWAIT_MS) if self._hurry else self._bounds.await_ms
        batch_rows = min(self._bounds.batch_rows, max(1, int(self._bounds.span_rows * self._share)))
        asked_s = self._monotonic()
        batch = self._stream.next(batch_rows, await_ms)
        self._polls.note(batch, self._monotonic() - asked_s)
        self._add(batch)

    def _has_room(self) -> bool:
        rows, size = self._bounds.span_rows * self._share, self._bounds.span_bytes * self._share
        return self._rows < max(1.0, rows) and self._bytes < max(1.0, size)

    def _add(self, batch: Batch) -> None:
        with self._thread.changed:
            if batch.cluster_s is not None:
                self._ahead_s = batch.cluster_s - self._monotonic()
            if batch.changes:
                self._batches.append(batch.changes)
                self._rows += len(batch.changes)
                self._bytes += sum(map(len, batch.changes))
            if batch.end > self._end:
                self._end = batch.end
                self._thread.changed.notify_all()


def _time_of(change: bytes) -> tuple[int, int]:
    return time_of(event_position(change))
