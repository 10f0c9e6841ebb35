"""pgoutput's bytes, as a walsender sends them: the messages of a commit, and keepalives."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from tests.simulation.postgres.cluster import UNCHANGED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.postgres.cluster import Commit, Entry
    from tests.simulation.postgres.tables import Logged

_EPOCH_US = 946_684_800_000_000
_CYCLE = 1 << 32
_xlog = struct.Struct(">cqqq").pack
_begin = struct.Struct(">cqqI").pack
_commit = struct.Struct(">cBqqq").pack


def keepalive(wal_end: int) -> bytes:
    """What tells how far everything was sent."""
    return struct.pack(">cqqb", b"k", wal_end, 0, 0)


def framed(lsn: int, message: bytes) -> bytes:
    """A message as the payload of CopyData."""
    return _xlog(b"w", lsn, lsn, 0) + message


def begin(commit: Commit) -> bytes:
    """BEGIN."""
    return framed(commit.lsn, _begin(b"B", commit.lsn, commit.time_us - _EPOCH_US, commit.xid % _CYCLE))


def end(commit: Commit) -> bytes:
    """COMMIT."""
    return framed(commit.lsn, _commit(b"C", 0, commit.lsn, commit.end, commit.time_us - _EPOCH_US))


def relation(logged: Logged, lsn: int) -> bytes:
    """A relation's definition."""
    parts = [b"R", struct.pack(">I", logged.oid), b"public\0", logged.name.encode(), b"\0"]
    parts += [logged.identity.encode(), struct.pack(">H", len(logged.columns))]
    for name, type_, key in logged.columns:
        parts += [bytes([key]), name.encode(), b"\0", struct.pack(">Ii", type_, -1)]
    return framed(lsn, b"".join(parts))


def entry(one: Entry) -> bytes:
    """A change of rows."""
    oid = struct.pack(">I", one.relation.oid)
    names = [name for name, _type, _key in one.relation.columns]
    if one.op == "t":
        return framed(one.lsn, b"T" + struct.pack(">IB", 1, 0) + oid)
    kind = {"c": b"I", "u": b"U", "d": b"D"}[one.op]
    parts = [kind, oid]
    if one.old is not None:
        parts += [one.mark.encode(), *_row(names, one.old)]
    if one.new is not None:
        parts += [b"N", *_row(names, one.new)]
    return framed(one.lsn, b"".join(parts))


def _row(names: list[str], values: dict[str, Any]) -> Iterator[bytes]:
    yield struct.pack(">H", len(names))
    for name in names:
        value = values.get(name)
        if value is None:
            yield b"n"
        elif value == UNCHANGED:
            yield b"u"
        else:
            data = str(value).encode()
            yield b"t" + struct.pack(">I", len(data)) + data
