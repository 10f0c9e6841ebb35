"""Transactions that may have changed a table before it was published.

What a transaction does to a table that is not published yet is never in the log, even if it commits much
later. It holds its lock on the table until it ends. So when a table is first seen as published, the job waits
for every transaction that holds a writer's lock on it at that time. Later transactions are in the log, and
those that have ended are in the rows. Transactions that have not written to the table don't matter.

When a log is opened, the job records which tables are published and the next transaction id. The record is
kept over restarts while nothing changes. For a recorded table only older transactions matter, so a
transaction that waits for a missing standby for ever delays nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from engine.errors import TableBusy
from engine.printable import first_named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.postgres.saved import PublicationMark
    from adapters.postgres.server.questions.locks import Locks
    from engine.clock import Clock
    from engine.model import CollectionId

_WAIT_S = 0.05
_POLL_S = 0.005
_NAMED = 3
_IDS = 1 << 32


@dataclass(frozen=True, slots=True)
class PublishedTables:
    """Tables by oid that were published under these marks before transaction `xmax` began."""

    marks: Mapping[int, str] = field(default_factory=dict)
    xmax: int = 0

    @classmethod
    def now(cls, marks: Mapping[int, str], xmax: int, saved: Mapping[str, Any] | None) -> PublishedTables:
        """The current marks, with `xmax` read after them; if nothing has changed, the saved `xmax` stays."""
        noted = cls(marks, xmax)
        if saved and saved["marks"] == noted.to_json()["marks"]:
            return cls(marks, int(saved["xmax"]))
        return noted

    def to_json(self) -> PublicationMark:
        """The form in the saved state: a digest of the marks."""
        text = "\n".join(f"{oid} {mark}" for oid, mark in sorted(self.marks.items()))
        return {"marks": sha256(text.encode()).hexdigest(), "xmax": self.xmax}

    def may_lack(self, oid: int, mark: str, xid: str) -> bool:
        """Whether a transaction (32-bit id) may have changed the table before it was published."""
        return self.marks.get(oid) != mark or 0 < (self.xmax - int(xid)) % _IDS < _IDS // 2


@dataclass(frozen=True, slots=True)
class _MarkedTable:
    """A table under one publication mark, and who wrote to it when the mark was first seen."""

    mark: str
    writers: frozenset[str]


class Writers:
    """The transactions that must end before a table's first window, for one session of the log."""

    def __init__(
        self,
        locks: Locks,
        clock: Clock,
        noted: PublishedTables = PublishedTables(),
    ) -> None:
        self._locks, self._clock, self._noted = locks, clock, noted
        self._seen: dict[int, _MarkedTable] = {}

    def wait(self, oid: int, mark: str, name: CollectionId, until_s: float) -> None:
        """Return once no writer is left to wait for. Otherwise raise TableBusy, naming the writers.

        Call this when the table was seen to be published under this mark. Only the first call blocks, until
        `until_s` by the clock; later calls raise at once, since their caller has other work.
        """
        seen = self._seen.get(oid)
        asked_before = seen is not None and seen.mark == mark
        while True:
            known = seen.writers if seen is not None and seen.mark == mark else None
            if known is not None and not known:
                return
            holders = self._holders(oid, mark)
            left = frozenset(holders) if known is None else known.intersection(holders)
            seen = self._seen[oid] = _MarkedTable(mark, left)
            if left and (asked_before or self._clock.monotonic() >= until_s):
                raise _busy(name, list(dict.fromkeys(holders[xid] for xid in sorted(left))))
            if left:
                self._clock.sleep(_POLL_S)

    def _holders(self, oid: int, mark: str) -> dict[str, str]:
        """The transactions holding a writer's lock on the table or a partition, each with a description."""
        found = self._locks.writers(oid)
        return {xid: name for xid, name in found.items() if self._noted.may_lack(oid, mark, xid)}


def _busy(name: CollectionId, holders: list[str]) -> TableBusy:
    return TableBusy(
        "waits for transactions that were writing to it when it was first seen to be published: "
        + first_named(holders, _NAMED),
        where=name,
        hint="end them, or list the table in tidemark.snapshot.accept.risk",
    )


def patience(clock: Clock) -> float:
    """Until when to block for short transactions, by the clock."""
    return clock.monotonic() + _WAIT_S
