"""A server's side of a replication session: a log with exact places, sent again from any of them.

Owns the rule by which a session begins: logical decoding lets through transactions whose commit
record, and messages outside transactions whose own record, does not start before the place asked
for. Relation messages come again in every session.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.model import Position

POSTGRES_EPOCH_US = 946_684_800_000_000


def payload(lsn: int, message: bytes) -> bytes:
    """XLogData with its header of 25 bytes."""
    return b"w" + lsn.to_bytes(8, "big") * 2 + bytes(8) + message


def begin(commit_lsn: int, xid: int, at_us: int = POSTGRES_EPOCH_US) -> bytes:
    time = (at_us - POSTGRES_EPOCH_US).to_bytes(8, "big", signed=True)
    return payload(commit_lsn - 8, b"B" + commit_lsn.to_bytes(8, "big") + time + xid.to_bytes(4, "big"))


def commit(start: int, end: int) -> bytes:
    return payload(end, b"C\0" + start.to_bytes(8, "big") + end.to_bytes(8, "big") + bytes(8))


def row(oid: int, number: int = 0, kind: bytes = b"I") -> bytes:
    """An entry known by its number; nobody looks further into it than its kind."""
    return payload(number, kind + oid.to_bytes(4, "big") + number.to_bytes(8, "big"))


def relation(oid: int, definition: bytes = b"t") -> bytes:
    return payload(0, b"R" + oid.to_bytes(4, "big") + definition)


def message(end: int, number: int = 0, *, transactional: bool) -> bytes:
    """A logical message; pgoutput tells where its record ends."""
    head = b"M" + bytes([transactional]) + end.to_bytes(8, "big") + b"p\0"
    return payload(end, head + (8).to_bytes(4, "big") + number.to_bytes(8, "big"))


def is_entry(sent: bytes) -> bool:
    return sent[25] in b"IUDTM"


@dataclass(frozen=True)
class Group:
    """What is sent or left out together: a transaction, or a message outside; `start` is its record's."""

    start: int
    payloads: tuple[bytes, ...]


def sent_from(groups: Iterable[Group], position: Position) -> list[bytes]:
    """What START_REPLICATION at a position sends."""
    return [body for group in groups if group.start >= int(position.order[0]) for body in group.payloads]


def grouped(sent: Iterable[bytes]) -> list[Group]:
    """A recorded session in groups. A message's record starts somewhere before the end it tells."""
    groups: list[Group] = []
    inside: list[bytes] = []
    for event in sent:
        inside.append(event)
        if event[25:26] == b"C":
            groups.append(Group(int.from_bytes(inside[0][26:34], "big"), tuple(inside)))
            inside = []
        elif len(inside) == 1 and event[25:26] == b"M":
            groups.append(Group(int.from_bytes(event[27:35], "big") - 1, (event,)))
            inside = []
    return groups


@dataclass
class WalServer:
    """A log that is written record by record; every entry has a number of its own."""

    lsn: int = 1000
    xid: int = 700
    entries: int = 0
    groups: list[Group] = field(default_factory=list)

    def transaction(self, steps: Iterable[tuple[str, int]]) -> None:
        """Log `("row", oid)`, `("alter", oid)` and `("message", _)`; the commit record directly follows."""
        inside = [self._step(what, oid) for what, oid in steps]
        start, self.lsn, self.xid = self.lsn, self.lsn + 40, self.xid + 1
        first, last = begin(start, self.xid, POSTGRES_EPOCH_US + start), commit(start, self.lsn)
        self.groups.append(Group(start, (first, *inside, last)))

    def _step(self, what: str, oid: int) -> bytes:
        if what == "alter":
            return relation(oid)
        self.entries += 1
        self.lsn += 16
        if what == "message":
            return message(self.lsn, self.entries, transactional=True)
        return row(oid, self.entries)

    def message(self) -> None:
        """Log a message outside transactions."""
        start, self.lsn, self.entries = self.lsn, self.lsn + 24, self.entries + 1
        self.groups.append(Group(start, (message(self.lsn, self.entries, transactional=False),)))

    def session(self, position: Position) -> list[bytes]:
        """What a session sends, each relation described before its first row."""
        sent: list[bytes] = []
        described: set[bytes] = set()
        for event in sent_from(self.groups, position):
            oid = event[26:30]
            if event[25:26] == b"I" and oid not in described:
                sent.append(relation(int.from_bytes(oid, "big")))
            if event[25] in b"IR":
                described.add(oid)
            sent.append(event)
        return sent
