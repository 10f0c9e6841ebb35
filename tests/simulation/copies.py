"""The judge of rows without a key, of which some are alike; the worlds of all sources share it.

It counts, since an engine can't tell equal rows apart, nor need it. But the judge may: it follows each copy
from the entry that added it to the one that removed it, and so knows which copies were there all the time.

    log         + r   + r   signal   + r   - r           an entry adds (+) or removes (-) a copy of r
    copies      a     b              c     c removed     a and b were there all the time: both must be read

Which of the equal copies a database removes, nobody can see. The judge says: the newest one that was visible
when the remover committed. That leaves as many of the old ones as can be left. A copy that the remover could
not see must not be taken: a snapshot may show the removal and not the addition, and then has one row less.

    log         + r   signal   + r (hidden)   - r        the removal takes the first copy
    snapshot    shows the removal alone: no row, and the stream has carried the second copy
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable


ALL = 0
"""The ticket of all READs where an event does not tell for which entry of the queue it was read."""


class Copy(NamedTuple):
    """A copy of a row: the entry that added it, and the transaction."""

    at: int
    transaction: int


class Change(NamedTuple):
    """An entry of the log about rows without a key.

    `old` and `new` are what it removed and added (None: nothing). `hidden` are the transactions that were
    committed before it and not visible yet.
    """

    at: int
    transaction: int
    old: Any
    new: Any
    truncates: bool
    hidden: Collection[int]


class CopyRead(NamedTuple):
    """A READ, in or before a turn, for an entry of the queue. `beside`: it came beside the turns."""

    turn: int
    ticket: int
    key: Any
    beside: bool = False


class Finished(NamedTuple):
    """A snapshot: where the log and the turns were when it was asked for, and its entries of the queue."""

    since: int
    turn: int
    tickets: Collection[int]


There: TypeAlias = "defaultdict[Any, list[Copy]]"


class Copies:
    """The copies at a place of the log, and what was read of them.

    A turn reads a row at most as often as it exists there, for each snapshot; a finished snapshot has read
    every copy that was there from the signal to the end.
    """

    def __init__(self) -> None:
        self._there: There = defaultdict(list)
        self._reads: list[CopyRead] = []

    def again(self, turn: int, changes: Iterable[Change]) -> None:
        """Go back to where a turn began, behind these entries. Its rows will be read again."""
        self._reads = [read for read in self._reads if read.turn != turn or read.beside]
        self._there = _behind(changes)

    def apply(self, change: Change) -> None:
        """Take in an entry."""
        _apply(self._there, change)

    def read(self, read: CopyRead, before: Counter[Any], snapshots: int = 1) -> None:
        """Take in a READ; `before` counts those of the same turn, by snapshot: each reads for itself.

        `snapshots` is how many there are under one ticket.
        """
        mine = (read.ticket, read.key)
        before[mine] += 1
        self._reads.append(read)
        there = len(self._there.get(read.key, ()))
        if before[mine] > there * snapshots:
            raise Violation(
                f"turn {read.turn}: {before[mine]} copies of {read.key} were read, there are {there}"
            )

    def finished(self, finished: Finished, asked: Callable[[Any], bool]) -> None:
        """A snapshot was finished."""
        read = Counter(
            read.key for read in self._reads if read.turn >= finished.turn and read.ticket in finished.tickets
        )
        for key, copies in sorted(self._there.items()):
            least = sum(copy.at < finished.since for copy in copies)
            if read[key] < least and asked(key):
                raise Violation(
                    f"the snapshot of b is finished; {least} copies of {key} were there all the time, read"
                    f" were {read[key]}"
                )


def _behind(changes: Iterable[Change]) -> There:
    there: There = defaultdict(list)
    for change in changes:
        _apply(there, change)
    return there


def _apply(there: There, change: Change) -> None:
    if change.truncates:
        there.clear()
    if change.old is not None and (mine := there[change.old]):
        seen = [at for at, copy in enumerate(mine) if copy.transaction not in change.hidden]
        mine.pop(seen[-1] if seen else 0)
    if change.new is not None:
        there[change.new].append(Copy(change.at, change.transaction))
