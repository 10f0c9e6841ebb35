"""The wire format of pgoutput (protocol version 1), read in bulk with numpy.

A message is a CopyData payload of XLogData: `w`, the WAL start, the WAL end and the send time (eight bytes
each, big endian), then pgoutput's message. Rows of one relation and kind are parsed together, column by
column, with one cursor for each row. Knows nothing of transactions or events.

Source: PostgreSQL's documentation, "Logical Replication Message Formats".
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from adapters.postgres.server.table import Relation, RelationColumn
from engine.errors import SourceError
from engine.events.values.text import Bytes, Ints, Text, slices

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from engine.events.record.field import Mask

HEADER = 25
"""The length of the XLogData header before pgoutput's message."""
_HINT = "read the span again"
_TEXT, _NULL, _UNCHANGED = ord("t"), ord("n"), ord("u")


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages in one buffer: `data` holds all bytes; message i begins (with its kind) at `starts[i]`.

    `kinds` are the messages' kind bytes, `lsns` their WAL starts.
    """

    data: Bytes
    starts: Ints
    ends: Ints
    kinds: Bytes
    lsns: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def int32(self, at: Ints) -> Ints:
        """The unsigned 32-bit numbers at these offsets."""
        return _numbers(self.data, ">u4", at)

    def int64(self, at: Ints) -> Ints:
        """The 64-bit numbers at these offsets."""
        return _numbers(self.data, ">i8", at)


@dataclass(frozen=True, slots=True)
class Tuples:
    """Columns of many rows. `unchanged[i]` is None if column i has no unchanged value."""

    columns: list[Text]
    unchanged: list[Mask | None]


def read_messages(payloads: pa.Array) -> Messages:
    """The messages of a `large_binary` array of XLogData payloads, without copying."""
    _, offsets, values = payloads.buffers()
    if len(payloads) == 0:
        none = np.zeros(0, np.int64)
        return Messages(np.zeros(0, np.uint8), none, none, np.zeros(0, np.uint8), none)
    where = np.frombuffer(offsets, np.int64)[payloads.offset : payloads.offset + len(payloads) + 1]
    data = np.frombuffer(values, np.uint8)
    starts = where[:-1] + HEADER
    return Messages(data, starts, where[1:], data[starts], _numbers(data, ">i8", where[:-1] + 1))


def _numbers(data: Bytes, kind: str, at: Ints) -> Ints:
    size = np.dtype(kind).itemsize
    if len(data) < size:
        return np.zeros(len(at), np.int64)
    view: npt.NDArray[np.int64] = np.ndarray((len(data) - size + 1,), kind, data.data, 0, (1,))
    return view[np.minimum(at, len(view) - 1)].astype(np.int64)


def read_tuples(messages: Messages, at: Ints, width: int) -> tuple[Tuples, Ints]:
    """Read the rows whose tuples begin at `at`, and return where each ends.

    `at` is ascending and points behind the byte that marks a tuple as old or new. Raises SourceError unless
    each row has `width` columns that end within the messages.
    """
    if (_numbers(messages.data, ">u2", at) != width).any():
        raise SourceError("a row of the log has not as many columns as its relation", hint=_HINT)
    with _whole("a row of the log"):
        return _tuples(messages, at + 2, width)


def _tuples(messages: Messages, cursor: Ints, width: int) -> tuple[Tuples, Ints]:
    columns: list[Text] = []
    unchanged: list[Mask | None] = []
    for _ in range(width):
        kinds = messages.data[cursor]
        given = kinds == _TEXT
        lengths = np.where(given, messages.int32(cursor + 1), 0)
        begins = cursor + np.where(given, 5, 1)
        cursor = begins + lengths
        if len(cursor) and cursor.max() > len(messages.data):
            raise IndexError  # before that much memory is allocated
        columns.append(slices(messages.data, begins, cursor, given))
        missing = kinds == _UNCHANGED
        unchanged.append(missing if missing.any() else None)
    return Tuples(columns, unchanged), cursor


def parse_relation(payload: bytes) -> Relation:
    """Parse a message of kind `R`; `payload` begins with the kind.

    Raises SourceError for any other message.
    """
    if payload[:1] != b"R":
        raise SourceError(f"not a relation message: it begins with {payload[:1]!r}")
    with _whole("a relation message"):
        return _relation(payload)


def _relation(payload: bytes) -> Relation:
    oid = int.from_bytes(payload[1:5], "big")
    namespace, at = _text_at(payload, 5)
    name, at = _text_at(payload, at)
    identity = chr(payload[at])
    width = int.from_bytes(payload[at + 1 : at + 3], "big")
    at += 3
    columns = []
    for _ in range(width):
        key = bool(payload[at] & 1)
        column, at = _text_at(payload, at + 1)
        kind = int.from_bytes(payload[at : at + 4], "big")
        typmod = int.from_bytes(payload[at + 4 : at + 8], "big", signed=True)
        columns.append(RelationColumn(column, kind, typmod, key=key))
        at += 8
    if at > len(payload):
        raise IndexError
    return Relation(oid, namespace or "pg_catalog", name, identity, tuple(columns))


def parse_truncate(payload: bytes) -> tuple[int, ...]:
    """The oids of the relations that a message of kind `T` truncates, in its order. Raises SourceError."""
    count = int.from_bytes(payload[1:5], "big")
    if 6 + 4 * count > len(payload):
        raise _damaged("a truncate message")
    return tuple(int.from_bytes(payload[at : at + 4], "big") for at in range(6, 6 + 4 * count, 4))


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """A message that `pg_logical_emit_message` wrote."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes


def parse_message(payload: bytes) -> LogicalMessage:
    """Parse a message of kind `M`. Raises SourceError."""
    with _whole("a logical message"):
        prefix, at = _text_at(payload, 10)
        size = int.from_bytes(payload[at : at + 4], "big")
        lsn = int.from_bytes(payload[2:10], "big")
        if at + 4 + size > len(payload):
            raise IndexError
        return LogicalMessage(payload[1] == 1, lsn, prefix, payload[at + 4 : at + 4 + size])


@contextmanager
def _whole(what: str) -> Iterator[None]:
    """Raise SourceError if parsing inside runs past the end of a message or finds invalid text."""
    try:
        yield
    except (IndexError, ValueError):
        raise _damaged(what) from None


def _damaged(what: str) -> SourceError:
    return SourceError(
        f"{what} is damaged: it ends too early, or contains something other than text", hint=_HINT
    )


def _text_at(payload: bytes, at: int) -> tuple[str, int]:
    end = payload.index(b"\0", at)
    return payload[at:end].decode(), end + 1
