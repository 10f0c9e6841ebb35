"""Takes what the server sends on a replication connection, and answers it.

Messages go to the assembler, those of large open transactions aside. Only the log's thread uses it.
"""

from __future__ import annotations

import struct
from itertools import islice
from typing import TYPE_CHECKING

from adapters.postgres.log.assembler import HEADER_BYTES, POSTGRES_EPOCH_S
from adapters.postgres.log.streamed_transactions import STREAMED
from adapters.postgres.server.position import lsn_of
from adapters.postgres.server.replication import log_error, result_error

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from adapters.postgres.log.assembler import Assembler
    from adapters.postgres.log.streamed_transactions import StreamedTransactions
    from engine.errors import SourceError

_XLOG_DATA, _KEEPALIVE, _BEGIN, _RELATION = b"wkBR"
_keepalive = struct.Struct(">qqb").unpack_from
_status = struct.Struct(">cqqqqb").pack
_AT_ONCE = 2000
"""How many messages are taken before other threads get their turn."""


class Intake:
    """What comes on a session, which it closes. `acknowledged` is the LSN up to which the log is safe."""

    def __init__(
        self,
        session: psycopg.Connection,
        assembler: Assembler,
        streamed: StreamedTransactions,
        acknowledged: int,
        wall_clock: Callable[[], float],
    ) -> None:
        self._session, self._assembler, self._streamed = session, assembler, streamed
        self.connection, self.acknowledged, self._wall_clock = session.pgconn, acknowledged, wall_clock

    def take(self, rows: int, room: int) -> int:
        """Take what libpq has buffered, or more of a replayed transaction: `rows` and `room` bytes of it.

        Returns 0 if there is no more right away, and -1 at the end of the connection.
        """
        return self._replay(rows, room) if self.replaying else self._receive(room)

    @property
    def replaying(self) -> bool:
        """Whether a transaction that was streamed has committed, and comes now; nothing is read meanwhile."""
        return self._streamed.replaying

    def _receive(self, room: int) -> int:
        """Take at most 2,000 messages, and `room` bytes. Returns libpq's answer: -1 means the end."""
        get, add, sequence_of_bytes = self.connection.get_copy_data, self._assembler.add, bytes
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
                    if kind == _RELATION:
                        streamed.define(payload)
                    elif kind == _BEGIN and self._assembler.waiting:
                        break
            elif payload[0] == _KEEPALIVE:
                self._answer(payload)
            if room <= 0:
                break
        return 1

    def _replay(self, rows: int, room: int) -> int:
        """Add up to `rows` messages and `room` bytes of a committed transaction that was streamed."""
        for payload in islice(self._streamed.replayed(), max(1, min(rows, _AT_ONCE))):
            self._assembler.add(payload)
            room -= len(payload)
            if room <= 0 or self._assembler.waiting:
                break
        return 1

    def _answer(self, payload: bytes) -> None:
        wal_end, _sent, wants_reply = _keepalive(payload, 1)
        self._assembler.keepalive(wal_end)
        if wants_reply:
            self.send_status(reply=False)

    def send_status(self, *, reply: bool) -> None:
        """Tell the server what was received, and what is safe. `reply` asks it for an answer."""
        flushed = received = self.acknowledged
        if not self._assembler.passing:
            received = max(flushed, lsn_of(self._assembler.position))
        now_us = int((self._wall_clock() - POSTGRES_EPOCH_S) * 1_000_000)
        self.connection.put_copy_data(_status(b"r", received, flushed, flushed, now_us, reply))
        self.connection.flush()

    def lost(self) -> SourceError:
        """The error with which the connection has ended."""
        result = self.connection.get_result()
        if result is not None and result.error_message:
            return result_error(result)
        said = self.connection.error_message or b"connection closed"
        return log_error(said.decode(errors="replace").strip())

    def close(self) -> None:
        """End the session, and remove what waits aside."""
        self._streamed.close()
        self._session.close()
