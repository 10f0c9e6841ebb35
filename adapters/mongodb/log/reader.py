"""The log reader: a thread that reads the change stream's batches and collects them into spans.

Owns the bounds on what is held in memory. It does not decode events. Only this thread uses the stream; other
threads talk to it through flags under one lock.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.mongodb.log.position import time_of
from engine.errors import TidemarkError, unforeseen

if TYPE_CHECKING:
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


@dataclass(frozen=True, slots=True)
class Span:
    """The change events of `(start, end]`, in the batches that they came in.

    The cluster's clock is `ahead_s` ahead of `time.monotonic`; None if unknown.
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
        """The age of the last change at a time of `time.monotonic`, by the cluster's clock."""
        if self.silent or self.ahead_s is None:
            return None
        return max(0.0, clock_s + self.ahead_s - self.committed_at_s)


class MongoLog:
    """The change stream from where it was opened. One thread may call `take`.

    After an error it can't be used again: close it and open another.
    """

    def __init__(self, stream: ChangeStream, start: Position, bounds: LogBounds = LogBounds()) -> None:
        self._stream, self._bounds = stream, bounds
        self._start = self._end = start
        self._batches: list[tuple[bytes, ...]] = []
        self._rows = self._bytes = 0
        self._ahead_s: float | None = None
        self._changed = threading.Condition()
        self._hurry = self._closing = False
        self._share = 1.0
        self._failure: TidemarkError | None = None
        self._thread = threading.Thread(target=self._run, name="tidemark-log", daemon=True)
        self._thread.start()

    def take(self, timeout_s: float) -> Span | None:
        """What has come since the last call, waiting up to `timeout_s` for something."""
        with self._changed:
            self._changed.wait_for(self._has_news, timeout_s)
            if self._failure:
                raise self._failure
            if self._end <= self._start:
                return None
            span = Span(self._start, self._end, tuple(self._batches), self._ahead_s)
            self._start, self._batches, self._rows, self._bytes = self._end, [], 0, 0
            self._changed.notify_all()
            return span

    def _has_news(self) -> bool:
        return bool(self._failure or self._end > self._start)

    def acknowledge(self, position: Position) -> None:
        """Do nothing: the oplog keeps what it has room for, whether it was read or not."""

    def hurry(self, *, on: bool) -> None:
        """Poll again almost at once while a window waits for the stream."""
        self._hurry = on

    def limit(self, share: float) -> None:
        """Hold less of the stream. What is held already goes into one span."""
        with self._changed:
            self._share = share
            self._changed.notify_all()

    def close(self) -> None:
        """End the stream. The next one gets again what was not taken."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout=10)

    # The thread.

    def _run(self) -> None:
        try:
            while self._wait_for_room():
                await_ms = (
                    min(self._bounds.await_ms, _HURRIED_AWAIT_MS) if self._hurry else self._bounds.await_ms
                )
                batch_rows = min(self._bounds.batch_rows, max(1, int(self._bounds.span_rows * self._share)))
                self._add(self._stream.next(batch_rows, await_ms))
        except TidemarkError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001  a thread must hand over whatever happened
            self._fail(unforeseen("the log reader", error))
        finally:
            self._stream.close()

    def _wait_for_room(self) -> bool:
        """Wait until the span's bounds allow more. Whether to continue; False when closing."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._has_room())
            return not self._closing

    def _has_room(self) -> bool:
        rows, size = self._bounds.span_rows * self._share, self._bounds.span_bytes * self._share
        return self._rows < max(1.0, rows) and self._bytes < max(1.0, size)

    def _add(self, batch: Batch) -> None:
        with self._changed:
            if batch.cluster_s is not None:
                self._ahead_s = batch.cluster_s - time.monotonic()
            if batch.changes:
                self._batches.append(batch.changes)
                self._rows += len(batch.changes)
                self._bytes += sum(map(len, batch.changes))
            if batch.end > self._end:
                self._end = batch.end
                self._changed.notify_all()

    def _fail(self, error: TidemarkError) -> None:
        with self._changed:
            self._failure = error
            self._changed.notify_all()
