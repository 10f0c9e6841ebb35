"""The change log: one persistent replication connection, read by a thread of its own (`LogThread`).

Owns when something is read, and the bounds on what is held in memory. `stream/intake.py` has the connection,
`assembler.py` decides where parts end; nothing here decodes a row. Only the thread uses the connection. It
waits for the connection's socket, so other threads wake it through a pipe.
"""

from __future__ import annotations

import logging
import select
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import psycopg

from adapters.postgres.log.assembler import Assembler
from adapters.postgres.log.span import Span
from adapters.postgres.log.stream.intake import Intake
from adapters.postgres.log.stream.server_silence import ServerSilence
from adapters.postgres.log.stream.subscription import BOUNDS, LogBounds, Start, Subscription, replicate
from adapters.postgres.log.stream.wake_pipe import WakePipe
from adapters.postgres.log.streamed_transactions import StreamedTransactions
from adapters.postgres.server.position import lsn_of, parts_of
from adapters.source.log.log_thread import LogThread

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from adapters.postgres.server.connection import Identity
    from engine.clock import Clock
    from engine.errors import TidemarkError
    from engine.model import Position

_log = logging.getLogger("adapters")
_HURRY_INTERVAL_S = 0.01
_HELD_S = 1.0
"""The log is held no longer than this, even if the caller never releases it."""


@dataclass(frozen=True, slots=True)
class SessionTools:
    """The time, a directory where large open transactions wait, and what begins a replication session."""

    clock: Clock
    directory: Path
    replicate: Callable[[str, Subscription, int, Identity | None], psycopg.Connection] = replicate


class PostgresLog:
    """A replication session. Only one thread may call `take`.

    Raises SourceError when the connection fails. The session can't be used after that: close it and open
    another. The thread calls `give_up` when the server has become silent.

    A simulated log puts its own in the place of `thread` and `_wait`.
    """

    thread: ClassVar[type[LogThread]] = LogThread

    def __init__(
        self,
        conninfo: str,
        *,
        subscription: Subscription,
        start: Start,
        tools: SessionTools,
        bounds: LogBounds = BOUNDS,
        give_up: Callable[[], None] = lambda: None,
    ) -> None:
        self._bounds, self._clock, sent = bounds, tools.clock, start.sent
        self._assembler = Assembler(
            start.position,
            last_commit_end=start.last_commit_end,
            part_rows=bounds.part_rows,
            part_bytes=bounds.part_bytes,
            sent=sent.commit if sent else None,
        )
        self._start, self._opened_at = start.position, lsn_of(start.position)
        self._silence = ServerSilence(bounds.silence_s, tools.clock.monotonic(), give_up)
        self._hurry = self._full = False
        self._share, self._next_status_s = 1.0, 0.0
        self._held, self._held_until_s = False, float("inf")
        # The server discards what is acknowledged. So acknowledge nothing until it is certain that this is
        # the log that was read before.
        acknowledged = sent.slot_lsn if sent else lsn_of(start.position)
        streamed = StreamedTransactions(tools.directory)
        # Connect before the pipe is made: if this fails, nobody would close the pipe.
        session = tools.replicate(conninfo, subscription, acknowledged, start.server)
        self._intake = Intake(session, self._assembler, streamed, acknowledged, tools.clock.now)
        self._pipe = WakePipe()
        self._thread = self.thread(self._read, self._intake.close)
        self.wake = self._thread.wake
        self._thread.start()

    def take(self, timeout_s: float) -> Span | None:
        """Return what has come since the last call; wait up to `timeout_s` if there is nothing.

        Returns None if no entry came and the position did not move.
        """
        with self._thread.changed:
            self._thread.wait_or_wake(self._has_moved, timeout_s)
            self._thread.raise_failure()
            if not self._has_moved():
                return None
            cuts, end = self._assembler.take(), self._assembler.position
            span = Span(
                self._start,
                end,
                cuts,
                self._assembler.committed_at_s,
                self._assembler.last_commit_end,
                self._assembler.last_commit,
            )
            self._start = end
            if self._full:
                self._full = False
                self._pipe.wake()
            return span

    def await_past(self, timeout_s: float) -> bool:
        """Wait until everything sent before has been skipped; returns whether it has been.

        Raises PositionLost if it does not come again.
        """
        with self._thread.changed:
            self._thread.wait(lambda: not self._assembler.passing, timeout_s)
            self._thread.raise_failure()
            return not self._assembler.passing

    def _has_moved(self) -> bool:
        return self._assembler.position > self._start

    @property
    def failure(self) -> TidemarkError | None:
        """The error that ended the session."""
        return self._thread.failure

    @property
    def ahead(self) -> tuple[int, int]:
        """The entries and bytes that wait to be taken."""
        return self._assembler.entries, self._assembler.bytes

    def acknowledge(self, position: Position) -> None:
        """Tell the server that everything up to `position` is safe. Does nothing inside a transaction.

        Where this session began tells nothing of what has come in it. A server that was restored may have
        committed others below that position, which are sent now, and which no turn has saved yet.
        """
        lsn, sequence = parts_of(position)
        with self._thread.changed:
            if not sequence and lsn > max(self._intake.acknowledged, self._opened_at):
                self._intake.acknowledged = lsn
                self._pipe.wake()

    def hurry(self, *, on: bool) -> None:
        """Ask the server for its position every 10 ms, while a window waits for it."""
        with self._thread.changed:
            if self._hurry != on:
                self._hurry = on
                self._pipe.wake()

    def limit(self, share: float) -> None:
        """Hold less of the log from now on. What is held already goes into one span."""
        with self._thread.changed:
            self._share = share

    def hold(self, lsn: int = 0, *, lasting: bool = False) -> None:
        """Begin no transaction that commits at `lsn` or later until `let_go`, for one second at most.

        A `lasting` hold has no such limit. Once this returns, `take` returns no such transaction unless it
        had already begun to arrive.
        """
        with self._thread.changed:
            if self._thread.closing:
                return
            if not self._held:
                self._held, self._held_until_s = True, self._clock.monotonic() + _HELD_S
            if lasting:
                self._held_until_s = float("inf")
            self._hold(lsn)

    def let_go(self) -> None:
        """Release the hold."""
        with self._thread.changed:
            if self._held and not self._thread.closing:
                self._held, self._held_until_s = False, float("inf")
                self._hold(None)

    def _hold(self, lsn: int | None) -> None:
        before = self._assembler.position
        self._assembler.hold(lsn)
        if self._assembler.position > before:
            self._thread.changed.notify_all()
        self._pipe.wake()

    def close(self) -> None:
        """End the session. Entries not taken are dropped; the server will send them again."""
        self._thread.close(self._pipe.wake)
        self._pipe.close()

    # What the thread runs.

    def _read(self) -> None:
        """Send a status when it is due, take what has arrived, or else wait for more."""
        try:
            now = self._clock.monotonic()
            acknowledged = self._intake.acknowledged
            self._report(now)
            if now >= self._held_until_s:
                _log.debug("the log was held for %.1f s, and goes on", _HELD_S)
                self.let_go()
            if not self._stopped and self._drain():
                return
            self._wait(min(self._next_status_s, self._held_until_s))
        except psycopg.Error as error:
            raise self._intake.lost() from error
        if self._intake.acknowledged != acknowledged or self._hurry:
            self._next_status_s = min(self._next_status_s, now + _HURRY_INTERVAL_S)

    def _report(self, now: float) -> None:
        """Send a status if it is due. Raises SourceError if the server has been silent for too long."""
        if now >= self._next_status_s:
            if self._stopped:
                self._silence.heard_s = now  # nothing is read, so this is no silence
            silent_s = self._silence.check(now)
            self._intake.send_status(reply=self._hurry or silent_s > self._bounds.status_interval_s)
            self._next_status_s = now + (_HURRY_INTERVAL_S if self._hurry else self._bounds.status_interval_s)

    @property
    def _stopped(self) -> bool:
        """Whether nothing is read from the connection now."""
        return self._full or self._assembler.waiting

    def _wait(self, until_s: float) -> None:
        timeout_s = max(0.0, until_s - self._clock.monotonic())
        wake, connection = self._pipe.descriptor, self._intake.connection
        wanted = [wake] if self._stopped else [wake, connection.socket]
        ready, _, _ = select.select(wanted, [], [], timeout_s)
        if wake in ready:
            self._pipe.clear()
        if connection.socket in ready:
            connection.consume_input()
            self._silence.heard_s = self._clock.monotonic()

    def _drain(self) -> bool:
        """Take what libpq has buffered, or more of a replayed transaction.

        Returns True if there may be more right away.
        """
        with self._thread.changed:
            before, passing = self._assembler.position, self._assembler.passing
            most_rows, most_bytes = self._bounds.shared(self._share)
            room = most_bytes - self._assembler.bytes
            rows = most_rows - self._assembler.entries
            if self._intake.replaying:
                # Nothing is read meanwhile, so this is no silence.
                self._silence.heard_s = self._clock.monotonic()
            size = self._intake.take(rows, room)
            self._full = self._assembler.entries >= most_rows or self._assembler.bytes >= most_bytes
            if self._assembler.position > before or self._assembler.passing != passing:
                self._thread.changed.notify_all()
        if size < 0:
            raise self._intake.lost()
        return size > 0 and not self._stopped
