"""The log reader: a thread that polls the greatest LSN of each database and reads the spans up to it.

Owns the order in which databases take their turns, and how much is held in memory. The thread is the only
user of its connections; everybody else talks to it through flags under one lock.

    poll ──► plan (span_planner.py) ──► read (span_reader.py) ──► a span ──► take
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from adapters.sqlserver.server.position import Place, places_of, position_of
from engine.errors import TidemarkError, unforeseen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapters.sqlserver.log.capture_instances import Instances
    from adapters.sqlserver.log.span_reader import Read
    from engine.model import CollectionId, Position

_HURRIED_S = 0.02
_HELD = 2
"""Spans that are read ahead of the one that is encoded."""


@dataclass(frozen=True, slots=True)
class LogSlice:
    """What was read of one database: the place at its end, its rows, and which instances they are of.

    `told_at_s` is when the last commit was, in Unix seconds by the server's clock, or the present where
    nothing is left to read: the capture job's own delay is no lag of ours. That clock shows `ahead_s` more
    than `time.monotonic`. `gaps` are tables of which changes can't be had any more.
    """

    end: Place
    read: Read
    instances: Instances
    told_at_s: float
    news: bool = False
    gaps: Mapping[CollectionId, str] = field(default_factory=dict)
    ahead_s: float = 0.0

    def lag_s(self, clock_s: float) -> float | None:
        """How old that is at a time of `time.monotonic`; None without rows, when the server was not asked."""
        return max(0.0, clock_s + self.ahead_s - self.told_at_s) if self.read.rows else None


class DatabaseLog(Protocol):
    """The change tables of one database."""

    def next(self, after: Place) -> LogSlice | None:
        """The next span behind a place; None when there is nothing. Raises SourceError."""

    def limit(self, share: float) -> None:
        """Read no more than this share of the bounds at once."""

    def close(self) -> None:
        """Give up the connection."""


@dataclass(frozen=True, slots=True)
class Span:
    """The change rows of one database in `(start, end]`; `database` is its number."""

    start: Position
    end: Position
    database: int
    taken: LogSlice

    @property
    def entries(self) -> int:
        """How many change rows."""
        return self.taken.read.rows

    @property
    def silent(self) -> bool:
        """Whether nothing but the position moved."""
        return not self.entries and not self.taken.news and not self.taken.gaps

    @property
    def committed_at_s(self) -> float:
        """When the last change was committed; now, where it is all that was captured by then."""
        return self.taken.told_at_s

    @property
    def place(self) -> Place:
        """The database's place at the end."""
        return self.taken.end


class SqlServerLog:
    """The log of all databases from a position on. `take` may be called by one thread.

    After an error it is spent: close it and open another. `poll_s` is the pause between two polls, `told` are
    spans to begin with.
    """

    def __init__(
        self, databases: Sequence[DatabaseLog], start: Position, poll_s: float, told: Sequence[Span] = ()
    ) -> None:
        self._databases, self._poll_s = databases, poll_s
        self._places = list(places_of(start))
        self._spans: list[Span] = list(told)
        self._changed = threading.Condition()
        self._hurry = self._closing = False
        self._failure: TidemarkError | None = None
        self._thread = threading.Thread(target=self._run, name="tidemark-log", daemon=True)
        self._thread.start()

    def take(self, timeout_s: float) -> Span | None:
        """The next span, waiting for `timeout_s` while there is none."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure or self._spans, timeout_s)
            if self._spans:
                span = self._spans.pop(0)
                self._changed.notify_all()
                return span
            if self._failure:
                raise self._failure
            return None

    def acknowledge(self, position: Position) -> None:
        """Nothing: change tables are cleaned up by age, whoever reads them."""

    def hurry(self, *, on: bool) -> None:
        """Ask again at once when there is nothing, while a window waits for the stream."""
        with self._changed:
            self._hurry = on
            self._changed.notify_all()

    def limit(self, share: float) -> None:
        """Read less at once; what was read already goes as it is."""
        for database in self._databases:
            database.limit(share)

    def close(self) -> None:
        """End the session; what was not taken is read again by the next."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout=10)

    # The thread.

    def _run(self) -> None:
        try:
            while self._wait_for_room():
                if not self._round():
                    self._pause()
        except TidemarkError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001  a thread must hand over whatever happened
            self._fail(unforeseen("the log reader", error))
        finally:
            for database in self._databases:
                database.close()

    def _round(self) -> bool:
        """Let every database have its turn; whether any had rows."""
        moved = False
        for number, database in enumerate(self._databases):
            if not self._wait_for_room():
                return True
            taken = database.next(self._places[number])
            if taken is not None:
                self._add(number, taken)
                moved = moved or taken.read.rows > 0
        return moved

    def _wait_for_room(self) -> bool:
        """Whether to go on: when not too much is held, unless it is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or len(self._spans) < _HELD)
            return not self._closing

    def _pause(self) -> None:
        """Wait for the next poll, which comes soon once somebody hurries."""
        with self._changed:
            began_s = time.monotonic()
            self._changed.wait_for(lambda: self._closing or self._hurry, self._poll_s)
            if self._hurry:
                rest_s = min(_HURRIED_S, self._poll_s) - (time.monotonic() - began_s)
                self._changed.wait_for(lambda: self._closing, max(0.0, rest_s))

    def _add(self, number: int, taken: LogSlice) -> None:
        with self._changed:
            start = position_of(self._places)
            self._places[number] = taken.end
            span = Span(start, position_of(self._places), number, taken)
            last = self._spans[-1] if self._spans else None
            if last is not None and last.silent and last.database == number:
                self._spans[-1] = replace(span, start=last.start)
            else:
                self._spans.append(span)
            self._changed.notify_all()

    def _fail(self, error: TidemarkError) -> None:
        with self._changed:
            self._failure = error
            self._changed.notify_all()
