"""The change log: one persistent replication connection, read by a thread of its own (`LogThread`).

Owns the connection, keepalives, and the bounds on what is held in memory. `assembler.py` decides where parts
end; nothing here decodes a row. Only the thread uses the connection. It waits for the connection's socket, so
other threads wake it through a pipe.
"""

from __future__ import annotations

import logging
import os
import select
import struct
import time
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

import psycopg

from adapters.postgres.log.assembler import HEADER_BYTES, POSTGRES_EPOCH_S, Assembler
from adapters.postgres.log.span import Span
from adapters.postgres.log.streamed_transactions import STREAMED, StreamedTransactions
from adapters.postgres.log.subscription import BOUNDS, LogBounds, Start, Subscription, replicate
from adapters.postgres.server.answering import no_answer
from adapters.postgres.server.position import lsn_of, parts_of
from adapters.postgres.server.replication import log_error, result_error
from adapters.source.log.log_thread import LogThread
from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.errors import TidemarkError
    from engine.model import Position

_log = logging.getLogger("adapters")
_XLOG_DATA, _KEEPALIVE, _BEGIN = b"wkB"
_keepalive = struct.Struct(">qqb").unpack_from
_status = struct.Struct(">cqqqqb").pack
_HURRY_INTERVAL_S = 0.01
_AT_ONCE = 2000
"""How many messages are taken before other threads get their turn."""
_HELD_S = 1.0
"""The log is held no longer than this, even if the caller never releases it."""


class PostgresLog:
    """A replication session. Only one thread may call `take`. Large open transactions wait in `directory`.

    Raises SourceError when the connection fails. The session can't be used after that: close it and open
    another. The thread calls `give_up` when the server has become silent.

    A simulated log puts its own in the place of `thread`, `_clock`, `_replicate` and `_wait`.
    """

    thread: ClassVar[type[LogThread]] = LogThread

    def __init__(
        self,
        conninfo: str,
        *,
        subscription: Subscription,
        start: Start,
        directory: Path,
        bounds: LogBounds = BOUNDS,
        give_up: Callable[[], None] = lambda: None,
    ) -> None:
        self._bounds, self._give_up = bounds, give_up
        sent = start.sent
        self._assembler = Assembler(
            start.position,
            last_commit_end=start.last_commit_end,
            part_rows=bounds.part_rows,
            part_bytes=bounds.part_bytes,
            sent=sent.commit if sent else None,
        )
        self._streamed = StreamedTransactions(directory)
        self._start = start.position
        # The server discards what is acknowledged. So acknowledge nothing until it is certain that this is
        # the log that was read before.
        self._acknowledged = sent.slot_lsn if sent else lsn_of(start.position)
        self._heard_s, self._told = self._clock(), False
        self._hurry = self._full = False
        self._share, self._next_status_s = 1.0, 0.0
        self._held, self._held_until_s = False, float("inf")
        # Connect before the pipe is made: if this fails, nobody would close the pipe.
        self._session = self._replicate(conninfo, subscription, self._acknowledged, start.timeline)
        self._connection = self._session.pgconn
        self._wake_r, self._wake_w = os.pipe()
        os.set_blocking(self._wake_w, False)
        self._thread = self.thread(self._read, self._end)
        self._thread.start()

    def _clock(self) -> float:
        return time.monotonic()

    def _replicate(
        self, conninfo: str, subscription: Subscription, lsn: int, timeline: int | None
    ) -> psycopg.Connection:
        return replicate(conninfo, subscription, lsn, timeline)

    def take(self, timeout_s: float) -> Span | None:
        """Return what has come since the last call; wait up to `timeout_s` if there is nothing.

        Returns None if no entry came and the position did not move.
        """
        with self._thread.changed:
            self._thread.wait(self._has_moved, timeout_s)
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
                self._wake()
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
        """Tell the server that everything up to `position` is safe. Does nothing inside a transaction."""
        lsn, sequence = parts_of(position)
        with self._thread.changed:
            if not sequence and lsn > self._acknowledged:
                self._acknowledged = lsn
                self._wake()

    def hurry(self, *, on: bool) -> None:
        """Ask the server for its position every 10 ms, while a window waits for it."""
        with self._thread.changed:
            if self._hurry != on:
                self._hurry = on
                self._wake()

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
                self._held, self._held_until_s = True, self._clock() + _HELD_S
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
        self._wake()

    def close(self) -> None:
        """End the session. Entries not taken are dropped; the server will send them again."""
        self._thread.close(self._wake)
        for descriptor in (self._wake_r, self._wake_w):
            os.close(descriptor)

    def _wake(self) -> None:
        try:
            os.write(self._wake_w, b"!")
        except BlockingIOError:
            return

    # What the thread runs.

    def _read(self) -> None:
        """Send a status when it is due, take what has arrived, or else wait for more."""
        try:
            now = self._clock()
            acknowledged = self._acknowledged
            self._report(now)
            self._let_go_after(now)
            if not self._stopped and self._drain():
                return
            self._wait(min(self._next_status_s, self._held_until_s))
        except psycopg.Error as error:
            raise self._lost() from error
        if self._acknowledged != acknowledged or self._hurry:
            self._next_status_s = min(self._next_status_s, now + _HURRY_INTERVAL_S)

    def _report(self, now: float) -> None:
        """Send a status if it is due. Raises SourceError if the server has been silent for too long."""
        if now >= self._next_status_s:
            silent_s = self._silent_s(now)
            self._send_status(reply=self._hurry or silent_s > self._bounds.status_interval_s)
            self._next_status_s = now + (_HURRY_INTERVAL_S if self._hurry else self._bounds.status_interval_s)

    @property
    def _stopped(self) -> bool:
        """Whether nothing is read from the connection now."""
        return self._full or self._assembler.waiting

    def _let_go_after(self, now: float) -> None:
        if now >= self._held_until_s:
            _log.debug("the log was held for %.1f s, and goes on", _HELD_S)
            self.let_go()

    def _silent_s(self, now: float) -> float:
        """How long the server has sent nothing, in seconds. Raises SourceError if that is too long."""
        if self._stopped:
            self._heard_s = now  # nothing is read, so this is no silence
        silent_s = now - self._heard_s
        if silent_s < self._bounds.silence_s / 2:
            self._told = False
        elif not self._told and self._bounds.silence_s:
            self._told = True
            _log.warning("%s; it is given up after %.0f s", no_answer(silent_s), self._bounds.silence_s)
        if 0 < self._bounds.silence_s < silent_s:
            self._give_up()
            raise SourceError(no_answer(silent_s), place="replication connection")
        return silent_s

    def _wait(self, until_s: float) -> None:
        timeout_s = max(0.0, until_s - self._clock())
        wanted = [self._wake_r] if self._stopped else [self._wake_r, self._connection.socket]
        ready, _, _ = select.select(wanted, [], [], timeout_s)
        if self._wake_r in ready:
            os.read(self._wake_r, 1024)
        if self._connection.socket in ready:
            self._connection.consume_input()
            self._heard_s = self._clock()

    def _drain(self) -> bool:
        """Take what libpq has buffered, or more of a replayed transaction.

        Returns True if there may be more right away.
        """
        with self._thread.changed:
            before, passing = self._assembler.position, self._assembler.passing
            most_rows, most_bytes = self._bounds.shared(self._share)
            room = most_bytes - self._assembler.bytes
            rows = most_rows - self._assembler.entries
            size = self._replay(rows, room) if self._streamed.replaying else self._receive(room)
            self._full = self._assembler.entries >= most_rows or self._assembler.bytes >= most_bytes
            if self._assembler.position > before or self._assembler.passing != passing:
                self._thread.changed.notify_all()
        if size < 0:
            raise self._lost()
        return size > 0 and not self._stopped

    def _receive(self, room: int) -> int:
        """Take at most 2,000 messages, and `room` bytes. Returns libpq's answer: -1 means the end."""
        get, add, sequence_of_bytes = self._connection.get_copy_data, self._assembler.add, bytes
        streamed, in_block = self._streamed, self._streamed.in_block
        for _ in range(_AT_ONCE):
            size, data = get(1)
            if size <= 0:
                return size
            room -= size
            payload = sequence_of_bytes(data)
            if payload[0] == _XLOG_DATA:
                kind = payload[HEADER_BYTES] if size > HEADER_BYTES else 0  # what is damaged is refused below
                if in_block or kind in STREAMED:
                    streamed.add(payload)
                    in_block = streamed.in_block
                    if streamed.replaying:
                        break
                else:
                    add(payload)
                    if kind == _BEGIN and self._assembler.waiting:
                        break
            elif payload[0] == _KEEPALIVE:
                self._answer(payload)
            if room <= 0:
                break
        return 1

    def _replay(self, rows: int, room: int) -> int:
        """Add up to `rows` messages and `room` bytes of a committed transaction that was streamed."""
        self._heard_s = self._clock()  # nothing is read meanwhile, so this is no silence
        for payload in islice(self._streamed.replayed(), max(1, min(rows, _AT_ONCE))):
            self._assembler.add(payload)
            room -= len(payload)
            if room <= 0 or self._assembler.waiting:
                break
        return 1

    def _end(self) -> None:
        self._streamed.close()
        self._session.close()

    def _answer(self, payload: bytes) -> None:
        wal_end, _sent, wants_reply = _keepalive(payload, 1)
        self._assembler.keepalive(wal_end)
        if wants_reply:
            self._send_status(reply=False)

    def _send_status(self, *, reply: bool) -> None:
        flushed = received = self._acknowledged
        if not self._assembler.passing:
            received = max(flushed, lsn_of(self._assembler.position))
        now_us = int((time.time() - POSTGRES_EPOCH_S) * 1_000_000)
        self._connection.put_copy_data(_status(b"r", received, flushed, flushed, now_us, reply))
        self._connection.flush()

    def _lost(self) -> SourceError:
        result = self._connection.get_result()
        if result is not None and result.error_message:
            return result_error(result)
        said = self._connection.error_message or b"connection closed"
        return log_error(said.decode(errors="replace").strip())
