"""Transactions that the server sends while they are open: kept on disk, and replayed at their commit.

From version 14 on, a server can send a transaction that is larger than its `logical_decoding_work_mem` in
blocks while it is in progress. Otherwise it writes the transaction to its own disk first, and sends it at the
commit. Blocks of several transactions alternate, and other transactions commit between them:

    sent       S7 R I I E    B8 I C8    S7 I I E    S9 I E    A9    c7
    replayed                 B8 I C8                                B7 R I I I I C7

So each transaction is seen once, whole, and in the order of commits, as if it had not been streamed.
Positions, windows and the merge rule know nothing of blocks. An abort drops what it concerns: a transaction,
or what was done since a savepoint.

Older minor versions don't describe a relation again for rows after such a commit. They mean the definition
that they sent last, which may be newer than the one that is replayed with the transaction. So a replay ends
with the newer one:

    sent       S7 R(a) I E    B9 R(b) I C9    c7                       B10 I C10
    replayed                  B9 R(b) I C9    B7 R(a) I R(b) C7        B10 I C10

A file has no name, so it ends with the process. Nothing of it has to survive: the server sends an open
transaction again from its beginning in the next session, whatever was acknowledged.
"""

from __future__ import annotations

import struct
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Final

import numpy as np

from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

_START, _STOP, _COMMIT, _ABORT = b"SEcA"
_RELATION: Final = ord("R")
STREAMED: Final = frozenset(b"SEcA")
"""The kinds of messages that begin and end blocks and streamed transactions."""
_OF_A_TRANSACTION: Final = np.frombuffer(b"RYIUDTM", np.uint8)
"""The kinds of messages that carry their transaction's id inside a block."""
_KIND: Final = 25
"""Where a message's kind stands, after the header of XLogData."""
_BODY: Final = _KIND + 1
_ID_BYTES: Final = 4
_id = struct.Struct(">I").unpack_from
_two_ids = struct.Struct(">II").unpack_from
_commit = struct.Struct(">IBqqq").unpack_from
_begin = struct.Struct(">cqqI").pack
_count = struct.Struct("<I")
_BLOCK_BYTES: Final = 1 << 20
"""How much of a transaction is collected before it is written."""
_IN_MEMORY_BYTES: Final = 1 << 20
"""How much of a transaction stays in memory before it gets a file."""
_HINT: Final = (
    "free some space there, nothing is lost meanwhile; or set tidemark.log.streaming=false, and large"
    " transactions wait on the server's disk"
)


class StreamedTransactions:
    """The open transactions of one replication session. `directory` is on this machine's disk.

    All methods raise SourceError if the disk fails, or if messages are out of order.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: dict[int, _Transaction] = {}
        self._block: _Transaction | None = None
        self._replay: Iterator[bytes] | None = None
        self._definitions_sent = 0
        self._in_force: dict[int, tuple[int, bytes]] = {}

    @property
    def in_block(self) -> bool:
        """Whether what comes belongs to an open transaction."""
        return self._block is not None

    @property
    def replaying(self) -> bool:
        """Whether a committed transaction is being replayed. Nothing may be added meanwhile."""
        return self._replay is not None

    def define(self, payload: bytes) -> None:
        """Note a whole relation message that came outside blocks."""
        self._definitions_sent += 1
        self._in_force[_id(payload, _BODY)[0]] = self._definitions_sent, payload

    def add(self, payload: bytes) -> None:
        """Add one XLogData payload: of `STREAMED` kinds, or inside a block."""
        try:
            self._add(payload, payload[_KIND])
        except (struct.error, IndexError) as error:
            raise SourceError("a message of the log is damaged", hint="read the span again") from error

    def _add(self, payload: bytes, kind: int) -> None:
        if self._block is not None and kind not in STREAMED:
            if kind == _RELATION:
                own, _oid = _two_ids(payload, _BODY)
                self._definitions_sent += 1
                self._block.definitions.append((own, self._definitions_sent))
            self._block.add(payload)
        elif kind == _START and self._block is None:
            (xid,) = _id(payload, _BODY)
            if xid not in self._open:
                self._open[xid] = _Transaction(self._directory)
            self._block = self._open[xid]
        elif kind == _STOP and self._block is not None:
            self._block.flush()
            self._block = None
        elif kind == _COMMIT and self._block is None:
            self._commit(payload)
        elif kind == _ABORT and self._block is None:
            self._abort(*_two_ids(payload, _BODY))
        else:
            raise SourceError(f"a message {chr(kind)!r} comes out of order", where="replication connection")

    def _commit(self, payload: bytes) -> None:
        xid, _flags, lsn, _end, time = _commit(payload, _BODY)
        header, ended = payload[:_KIND], payload[_BODY + _ID_BYTES :]
        if xid not in self._open:
            raise SourceError(f"transaction {xid} commits and was not sent", where="replication connection")
        begin = header + _begin(b"B", lsn, time, xid)
        self._replay = self._replayed(begin, xid, header + b"C" + ended)

    def _abort(self, xid: int, subtransaction: int) -> None:
        # What was not sent before it was aborted is unknown here.
        if xid == subtransaction:
            if transaction := self._open.pop(xid, None):
                transaction.close()
        elif transaction := self._open.get(xid):
            transaction.abort(subtransaction)

    def _replayed(self, begin: bytes, xid: int, commit: bytes) -> Iterator[bytes]:
        yield begin
        transaction, newer = self._open[xid], dict[int, bytes]()
        numbers = iter(transaction.kept_definitions())
        for payload in transaction.messages():
            if payload[_KIND] == _RELATION:
                self._defined(payload, next(numbers), newer)
            yield payload
        yield from newer.values()
        yield commit
        self._open.pop(xid).close()
        self._replay = None

    def _defined(self, payload: bytes, number: int, newer: dict[int, bytes]) -> None:
        """Note a definition that is replayed, and in `newer` one that was in force and was sent after it."""
        (oid,) = _id(payload, _BODY)
        sent, in_force = self._in_force.get(oid, (0, b""))
        if sent > number and in_force[_KIND:] != payload[_KIND:]:
            newer[oid] = in_force
            return
        newer.pop(oid, None)
        self._in_force[oid] = max(sent, number), payload

    def replayed(self) -> Iterator[bytes]:
        """The committed transaction's messages, from BEGIN to COMMIT, as if it had not been streamed.

        A caller that stops in the middle gets the rest from the next call.
        """
        while self._replay is not None and (payload := next(self._replay, None)) is not None:
            yield payload

    def close(self) -> None:
        """Drop everything."""
        for transaction in self._open.values():
            transaction.close()
        self._open, self._block, self._replay = {}, None, None


class _Transaction:
    """The messages of an open transaction as they came, in blocks of one write each.

    A block is the number of its messages, their sizes, and the messages. `definitions` are the ids and
    numbers of its relation messages, in order; a session's relation messages are numbered as they are sent.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        # Closed by `close`.
        self._file: IO[bytes] = SpooledTemporaryFile(_IN_MEMORY_BYTES, "w+b", dir=str(directory))  # noqa: SIM115
        self._aborted: set[int] = set()
        self.definitions: list[tuple[int, int]] = []
        self._messages: list[bytes] = []
        self._bytes = 0

    def add(self, message: bytes) -> None:
        """Add a message of the transaction, or of one of its subtransactions."""
        self._messages.append(message)
        self._bytes += len(message)
        if self._bytes >= _BLOCK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what was collected."""
        if not self._messages:
            return
        sizes = np.fromiter(map(len, self._messages), np.uint32, len(self._messages))
        block = (_count.pack(len(sizes)), sizes.tobytes(), *self._messages)
        self._messages, self._bytes = [], 0
        try:
            self._file.writelines(block)
        except OSError as error:
            raise self._failed(error) from error

    def abort(self, xid: int) -> None:
        """Drop what a subtransaction did."""
        self._aborted.add(xid)

    def kept_definitions(self) -> list[int]:
        """The numbers of the relation messages that `messages` gives, in order."""
        return [number for xid, number in self.definitions if xid not in self._aborted]

    def messages(self) -> Iterator[bytes]:
        """The messages of all that was not aborted, in order and without the ids of their transactions."""
        self.flush()
        aborted = np.array(sorted(self._aborted), np.uint32)
        self._seek_first()
        while count := self._read(_count.size):
            sizes = np.frombuffer(self._read(4 * _count.unpack(count)[0]), np.uint32).astype(np.int64)
            data, ends = self._read(int(sizes.sum())), np.cumsum(sizes)
            starts = ends - sizes
            kept = _carry_ids(data, starts) & ~np.isin(_ids(data, starts), aborted)
            for start, end in zip(starts[kept].tolist(), ends[kept].tolist(), strict=True):
                yield data[start : start + _BODY] + data[start + _BODY + _ID_BYTES : end]

    def _seek_first(self) -> None:
        try:
            self._file.seek(0)  # which also writes what is still buffered
        except OSError as error:
            raise self._failed(error) from error

    def _read(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> SourceError:
        reason = (error.strerror or str(error)).lower()
        return SourceError(
            f"a large open transaction can't be kept: {reason}", where=str(self._directory), hint=_HINT
        )

    def close(self) -> None:
        """Remove the file."""
        try:
            self._file.close()
        except OSError:  # what is still buffered did not fit, and nobody needs it
            return


def _carry_ids(data: bytes, starts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the messages at `starts` carry their transaction's id."""
    return np.isin(np.frombuffer(data, np.uint8)[starts + _KIND], _OF_A_TRANSACTION)


def _ids(data: bytes, starts: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The four bytes behind the kinds of messages, as numbers; meaningless where a message is shorter."""
    places = np.minimum((starts + _BODY)[:, np.newaxis] + np.arange(_ID_BYTES), len(data) - 1)
    return np.frombuffer(np.frombuffer(data, np.uint8)[places].tobytes(), ">u4").astype(np.uint32)
