"""Assembles replication messages into parts of a span, with the position after each.

Handles everything that needs no decoding of rows: transaction boundaries, the sequence of entries inside a
transaction, the relation definition in force, and where to cut. `reader.py` receives the messages,
`decode.py` decodes them. Pure.

After a restart the server may send entries again, from the slot's confirmed position on. The assembler skips
them up to the last commit that was sent. That commit must come again unchanged: if it does not, the log
belongs to another server, to a copy, or to a server that was restored.

The stream can be held at an LSN: no transaction that commits there or later begins until the hold is
released. The BEGIN of the first such transaction waits.

A position is `(lsn, sequence)`. Outside a transaction: everything committed before `lsn` has been seen.
Inside a transaction: its commit record starts at `lsn`, and `sequence` of its entries have been seen. Only
row, truncate and message entries count, because a server sends relation messages again in every session.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from adapters.postgres.log.timeline import SpanPart, TransactionContext
from adapters.postgres.server.position import parts_of, position_at
from adapters.postgres.server.visibility import format_lsn
from engine.errors import InvariantError, OtherHistory, SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.model import Position

HEADER_BYTES = 25
POSTGRES_EPOCH_S = 946_684_800
"""2000-01-01, PostgreSQL's epoch, in Unix seconds."""
_BEGIN, _COMMIT, _RELATION, _MESSAGE = b"BCRM"
_ENTRIES = frozenset(b"IUDTM")
_TRANSACTIONAL = 1
_begin = struct.Struct(">qqI").unpack_from
_commit = struct.Struct(">Bqqq").unpack_from
_message = struct.Struct(">Bq").unpack_from
_oid = struct.Struct(">I").unpack_from


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: the LSN where its record ends, the 32-bit id, the time in microseconds since 1970."""

    end: int
    xid: int
    time_us: int


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of a span, with the relation definitions in force (by oid) and the number of its entries."""

    part: SpanPart
    definitions: Mapping[int, Definition]
    entries: int


@dataclass(frozen=True, slots=True)
class Definition:
    """A pgoutput relation message, and its serial number among the session's relation messages.

    The server sends the message again whenever the table's catalog entry may have changed. The message can be
    identical then: a changed default or NOT NULL does not show in it.
    """

    serial: int
    message: bytes


class Assembler:
    """Collects the messages of one replication session; `take` hands them over as parts.

    A part holds at most `part_rows` entries and about `part_bytes` bytes. Each relation has one definition
    within a part, so parts can be decoded independently. `sent` is the last commit that was sent: the session
    begins before it, and everything up to it is skipped.
    """

    def __init__(
        self,
        start: Position,
        *,
        last_commit_end: int | None,
        part_rows: int,
        part_bytes: int,
        sent: Commit | None = None,
    ) -> None:
        lsn, sequence = parts_of(start)
        self._end = lsn
        self._start = lsn
        self._resume = (lsn, sequence) if sequence else None
        self._skip = 0
        self._passing = sent
        self._limit: int | None = None
        self._waiting: bytes | None = None
        self.last_commit: Commit | None = None
        self._xid: int | None = None
        self._commit_lsn = self._commit_ts = self._sequence = 0
        self.last_commit_end = last_commit_end
        self._part_rows, self._part_bytes = part_rows, part_bytes
        self._definitions: dict[int, Definition] = {}
        self._serial = 0
        self._cuts: list[Cut] = []
        self._open_part()
        self.entries = 0
        self.bytes = 0

    def _open_part(self) -> None:
        self._messages: list[bytes] = []
        self._part_size = self._part_entries = 0
        self._part_context = TransactionContext(
            xid=self._xid,
            commit_lsn=self._commit_lsn,
            commit_ts_us=self._commit_ts,
            last_commit_end=self.last_commit_end,
            sequence=self._sequence,
        )

    @property
    def position(self) -> Position:
        """The position after everything added."""
        if self._resume:
            return position_at(*self._resume)
        if self._passing is not None or self._xid is None:
            return position_at(self._end)
        return position_at(self._commit_lsn, self._sequence)

    @property
    def committed_at_s(self) -> float:
        """The commit time of the last transaction seen, in Unix seconds."""
        return self._commit_ts / 1_000_000

    @property
    def passing(self) -> bool:
        """Whether the stream is still skipping up to the last commit that was sent."""
        return self._passing is not None

    @property
    def waiting(self) -> bool:
        """Whether a transaction waits at the LSN given to `hold`. Nothing may be added while one does."""
        return self._waiting is not None

    def hold(self, lsn: int | None) -> None:
        """Begin no transaction whose commit record starts at `lsn` or later; None releases the hold.

        All transactions before the waiting one have been added by then, so the position moves up to `lsn`.
        """
        self._limit = lsn
        payload, self._waiting = self._waiting, None
        if payload is not None:
            self._began(payload)

    def add(self, payload: bytes) -> None:
        """Add one XLogData payload, including its 25-byte header.

        Raises PositionLost if this is not the log that was read before, SourceError if a message is damaged.
        """
        try:
            self._add(payload)
        except (IndexError, struct.error) as error:
            raise SourceError("a message of the log is damaged", hint="read the span again") from error

    def _add(self, payload: bytes) -> None:
        kind = payload[HEADER_BYTES]
        if self._passing is not None and kind != _RELATION:
            self._pass_over(self._passing, kind, payload)
        elif kind in _ENTRIES:
            if kind == _MESSAGE and self._sent_before(payload):
                return
            if self._skip:
                self._skip -= 1
                return
            if self._part_entries >= self._part_rows or self._part_size >= self._part_bytes:
                self._cut()
            self._part_entries += 1
            self.entries += 1
            if kind == _MESSAGE:
                self._passed_message(payload)
            else:
                self._sequence += 1
            self._append(payload)
        elif kind == _BEGIN:
            self._began(payload)
        elif kind == _COMMIT:
            self._append(payload)
            self._committed(payload)
        elif kind == _RELATION:
            self._defined(payload)

    def _pass_over(self, sent: Commit, kind: int, payload: bytes) -> None:
        """Skip what was sent before, until its last commit comes."""
        if kind == _BEGIN:
            commit_lsn, commit_ts, self._xid = _begin(payload, HEADER_BYTES + 1)
            self._commit_ts = commit_ts + POSTGRES_EPOCH_S * 1_000_000
            if commit_lsn >= sent.end:
                raise _other_log(sent, f"a transaction that commits at {format_lsn(commit_lsn)}")
        elif kind == _COMMIT:
            _flags, _lsn, end, _ts = _commit(payload, HEADER_BYTES + 1)
            found = Commit(end, self._xid or 0, self._commit_ts)
            self._xid = None
            if found == sent:
                self._passing = None
            elif found.end >= sent.end:
                raise _other_log(sent, f"a commit that ends at {format_lsn(end)}, of transaction {found.xid}")

    def _sent_before(self, payload: bytes) -> bool:
        """Whether a non-transactional message was already sent before the saved position."""
        flags, lsn = _message(payload, HEADER_BYTES + 1)
        return not flags & _TRANSACTIONAL and lsn <= self._start

    def _append(self, payload: bytes) -> None:
        self._messages.append(payload)
        self._part_size += len(payload)
        self.bytes += len(payload)

    def _passed_message(self, payload: bytes) -> None:
        flags, lsn = _message(payload, HEADER_BYTES + 1)
        if not flags & _TRANSACTIONAL:
            self.last_commit_end = lsn
        if self._xid is None:
            # The message's record ends at `lsn`, and the commit record of the next transaction may begin
            # right there. If asked for one byte later, the server would silently skip that transaction.
            self._end = max(self._end, lsn)
        else:
            self._sequence += 1

    def _began(self, payload: bytes) -> None:
        commit_lsn, commit_ts, xid = _begin(payload, HEADER_BYTES + 1)
        if self._limit is not None and commit_lsn >= self._limit and self._resume is None:
            self._waiting = payload
            self._end = max(self._end, self._limit)
            return
        commit_ts += POSTGRES_EPOCH_S * 1_000_000
        sequence = self._resumed(commit_lsn)
        if not sequence:
            self._append(payload)
        self._xid, self._commit_lsn, self._commit_ts, self._sequence = xid, commit_lsn, commit_ts, sequence
        if sequence:
            # The decoder must continue counting from the saved position: it gets the context and no BEGIN.
            self._cut()

    def _resumed(self, commit_lsn: int) -> int:
        if self._resume is None:
            return 0
        lsn, sequence = self._resume
        if commit_lsn != lsn:
            raise OtherHistory(
                f"the log begins at a transaction that commits at {commit_lsn}, not at {lsn}",
                where=f"position ({lsn}, {sequence})",
                hint="the slot was moved; start with an empty checkpoint and an empty sink directory,"
                " and take snapshots again",
            )
        self._resume = None
        self._skip = sequence
        return sequence

    def _committed(self, payload: bytes) -> None:
        if self._skip:
            raise InvariantError(f"a transaction ended {self._skip} entries before the saved position")
        _flags, _start, end, _ts = _commit(payload, HEADER_BYTES + 1)
        self._end = max(self._end, end)
        self.last_commit = Commit(end, self._xid or 0, self._commit_ts)
        self._xid, self._sequence, self.last_commit_end = None, 0, end

    def _defined(self, payload: bytes) -> None:
        (oid,) = _oid(payload, HEADER_BYTES + 1)
        if oid in self._definitions and self._part_entries:
            self._cut()
        self._serial += 1
        self._definitions = {**self._definitions, oid: Definition(self._serial, payload[HEADER_BYTES:])}
        if self._passing is None:
            self._append(payload)

    def keepalive(self, wal_end: int) -> None:
        """Move the position up to where the server says it has sent everything, if that is ahead.

        Raises PositionLost if the last commit that was sent should have come by then.
        """
        if self._passing is not None:
            if self._xid is None and wal_end >= self._passing.end:
                raise _other_log(self._passing, f"nothing up to {format_lsn(wal_end)}")
        elif self._xid is None and self._resume is None:
            self._end = max(self._end, wal_end)

    def _cut(self) -> None:
        if self._messages:
            part = SpanPart(pa.array(self._messages, pa.large_binary()), self._part_context)
            self._cuts.append(Cut(part, self._definitions, self._part_entries))
        self._open_part()

    def take(self) -> tuple[Cut, ...]:
        """Hand over everything since the last call, in order."""
        self._cut()
        cuts, self._cuts = tuple(self._cuts), []
        self.entries = self.bytes = 0
        return cuts


def _other_log(sent: Commit, instead: str) -> OtherHistory:
    return OtherHistory(
        f"the last commit that was sent, of transaction {sent.xid} at {format_lsn(sent.end)},"
        f" does not come again: the log has {instead}",
        where="replication slot",
        hint="the server was restored from a copy, or is another one; start with an empty checkpoint,"
        " an empty sink directory and a new slot, and take snapshots again",
    )
