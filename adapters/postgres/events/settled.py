"""Whether the transaction of an event was visible in a snapshot, as the event's source block tells. Pure.

A transaction is in the log for a moment before snapshots show it, and for as long as a standby lets it wait.
A window that opens then does not read the rows that it has inserted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from adapters.postgres.server.visibility import Visibility

_CYCLE: Final = 1 << 32
_RECENT_MS: Final = 24 * 60 * 60 * 1000


class _Source(msgspec.Struct):
    txId: int | None = None  # noqa: N815  as the block has it
    ts_ms: int = 0


_AS_SOURCE: Final = msgspec.json.Decoder(_Source)


_HIDES_SENT: Final = " hides-sent"


@dataclass(frozen=True, slots=True)
class SettledIn:
    """Whether transactions of events are visible in a snapshot taken at `now_ms`. Goes to the executors.

    An event that a snapshot has read has no transaction: its row was visible before. Transaction ids have 32
    bits and come again. So an id that the snapshot lacks since it is too new counts only for a day; one that
    the snapshot names as in progress counts always. What is found of a transaction is kept: it may have
    very many events. `unassigned` is an id that no transaction had yet, if it was asked for. `hides_sent`:
    a transaction of the stream was not visible yet.
    """

    visibility: Visibility
    now_ms: int
    unassigned: int = 0
    hides_sent: bool = False
    _found: dict[tuple[int, bool], bool] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, source: bytes) -> bool:
        """Whether the event with this source block is of a visible transaction."""
        found = _AS_SOURCE.decode(source)
        if found.txId is None:
            return True
        asked = found.txId % _CYCLE, found.ts_ms > self.now_ms - _RECENT_MS
        if asked not in self._found:
            self._found[asked] = self._visible(*asked)
        return self._found[asked]

    def shows_all_before(self, earlier: SettledIn) -> bool:
        """Whether every transaction that had an id when `earlier` was made is visible, or was rolled back.

        The ids in progress then don't suffice: a committed transaction that is not visible yet may have the
        newest id of all, and snapshots don't list that.
        """
        return 0 < earlier.unassigned <= self.visibility.xmin

    def saved(self) -> str:
        """Its text, for `settled_then`."""
        return f"{self.visibility} {self.now_ms} {self.unassigned}{_HIDES_SENT if self.hides_sent else ''}"

    def _visible(self, xid: int, recent: bool) -> bool:  # noqa: FBT001
        if bool(np.isin(xid, self.visibility.in_progress % _CYCLE)):
            return False
        return not recent or not self.visibility.missing([xid])


def settled_then(saved: str) -> SettledIn:
    """The one that was saved."""
    visibility, now_ms, unassigned, *_ = saved.split(" ")
    hides_sent = saved.endswith(_HIDES_SENT)
    return SettledIn(Visibility.parse(visibility), int(now_ms), int(unassigned), hides_sent)
