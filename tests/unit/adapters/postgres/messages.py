"""Writes pgoutput's messages, for tests of what reads them."""

from __future__ import annotations

from dataclasses import dataclass, field

UNCHANGED = object()
"""A value that the log left out."""


def text_value(value: object) -> bytes:
    if value is None:
        return b"n"
    if value is UNCHANGED:
        return b"u"
    data = str(value).encode()
    return b"t" + len(data).to_bytes(4, "big") + data


def row(mark: str, values: tuple[object, ...]) -> bytes:
    return mark.encode() + len(values).to_bytes(2, "big") + b"".join(map(text_value, values))


@dataclass
class Log:
    """Messages with ever greater places; each method appends one."""

    messages: list[bytes] = field(default_factory=list)
    lsn: int = 1000

    def add(self, message: bytes) -> None:
        self.lsn += 8
        self.messages.append(b"w" + self.lsn.to_bytes(8, "big") * 2 + bytes(8) + message)

    def begin(self, xid: int) -> None:
        self.add(b"B" + (self.lsn + 100).to_bytes(8, "big") + bytes(8) + xid.to_bytes(4, "big"))

    def commit(self) -> None:
        self.add(b"C\0" + self.lsn.to_bytes(8, "big") + (self.lsn + 8).to_bytes(8, "big") + bytes(8))

    def insert(self, oid: int, *values: object) -> None:
        self.add(b"I" + oid.to_bytes(4, "big") + row("N", values))

    def update(
        self, oid: int, new: tuple[object, ...], old: tuple[object, ...] | None = None, mark: str = "K"
    ) -> None:
        before = b"" if old is None else row(mark, old)
        self.add(b"U" + oid.to_bytes(4, "big") + before + row("N", new))

    def delete(self, oid: int, old: tuple[object, ...], mark: str = "K") -> None:
        self.add(b"D" + oid.to_bytes(4, "big") + row(mark, old))

    def truncate(self, *oids: int) -> None:
        self.add(
            b"T" + len(oids).to_bytes(4, "big") + b"\0" + b"".join(oid.to_bytes(4, "big") for oid in oids)
        )

    def message(self, prefix: str, content: bytes, *, transactional: bool = True) -> None:
        head = b"M" + bytes([transactional]) + self.lsn.to_bytes(8, "big") + prefix.encode() + b"\0"
        self.add(head + len(content).to_bytes(4, "big") + content)
