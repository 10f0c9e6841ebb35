"""Repairs: what a comparison has found to differ is sent, and everything is compared again.

    compare ──► nothing differs, or no less than before ──► verdict
       ▲  │
       │  └► extra rows: delete events, in turns of their own
       │         ▼
       └──── missing and different rows: READ events, in windows under the merge rule

A comparison says how things were after the turn `upto`. What is sent later must still be right then:

- *READ events.* The keys are read again in ordinary windows. Whatever the stream has carried for them in the
  meantime is in the rows, or supersedes them (`engine/snapshot/merge.py`).
- *Delete events.* The source had no row when the key's range was read, and the stream has carried nothing
  for the key up to `upto` that would have brought one. Then the copy's later turns are read: a key that has
  any event there is left out. Once they are read up to the newest turn N, the deletes go out in turn N+1,
  which takes no span of the log. So nothing comes between, and what brings a row back follows its delete:

    turns of the copy  ──── upto ──┬── k1 ── … ── N ──┬── N+1 ───────┬── k2: insert ──►
                          compared   read: k1 is touched   delete of k2, not of k1

Nothing of this survives the session: the repair begins anew with the next one, and what was sent is found
equal then. Each round leaves fewer differences than the one before, or is the last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from engine.snapshot.merge_key import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from engine.model import CollectionId, Key
    from engine.verify.copy import ExtraRow, Findings, Span, TouchedKeys

_KEYS_AT_ONCE: Final = 5_000
_DELETES_AT_ONCE: Final = 5_000
_DELETED_BYTES: Final = 4 << 20
"""How many bytes of events are read again for the deletes of a turn."""


@dataclass(frozen=True, slots=True)
class Deletes:
    """Delete events for a turn of their own. Call `sent` once it is committed."""

    collection: CollectionId
    events: pa.RecordBatch
    sent: Callable[[], None]


@dataclass(slots=True)
class Repair:
    """What one repair has left to send, and what it has sent.

    While it `sends`, nothing is compared. The copy's events are known up to the turn `known`. The last
    comparison found `differences`; None: there was none yet.
    """

    sends: bool = False
    known: int = 0
    differences: int | None = None
    extra: list[ExtraRow] = field(default_factory=list)
    wrong: list[bytes] = field(default_factory=list)
    reads: int = 0
    deletes: int = 0

    def begin(self, found: Findings, span: Span) -> bool:
        """Begin to send what differs. False if nothing does, or if sending has not helped."""
        if not found.differences or (self.differences is not None and found.differences >= self.differences):
            return False
        self.sends, self.known, self.differences = True, span.upto, found.differences
        self.extra, self.wrong = list(found.extra), list(found.wrong)
        return True

    def end(self) -> None:
        """Note that all is sent, and will be compared."""
        self.sends = False

    def anew(self) -> Repair:
        """The repair before its next comparison; from scratch if it was broken off."""
        return Repair(
            differences=None if self.sends else self.differences, reads=self.reads, deletes=self.deletes
        )

    def follow(self, touched: TouchedKeys) -> None:
        """Leave out the rows whose keys have later events."""
        self.known = touched.upto
        self.extra = [] if touched.all else [row for row in self.extra if row.key not in touched.keys]

    def next_extra(self) -> Sequence[ExtraRow]:
        """The rows to delete in the next turn."""
        chosen, size = 0, 0
        for row in self.extra[:_DELETES_AT_ONCE]:
            size += row.size
            if chosen and size > _DELETED_BYTES:
                break
            chosen += 1
        return self.extra[:chosen]

    def note_deleted(self, count: int) -> None:
        """Note that the first extra rows were deleted."""
        self.deletes += count
        self.extra = self.extra[count:]

    def next_keys(self) -> tuple[Key, ...]:
        """Take the keys of rows to send next."""
        taken, self.wrong = self.wrong[:_KEYS_AT_ONCE], self.wrong[_KEYS_AT_ONCE:]
        return tuple(key_of(key) for key in taken)
