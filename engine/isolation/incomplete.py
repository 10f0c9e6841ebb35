"""Collections whose copy is known to be incomplete, and how they become complete again. Pure.

    cause         meaning                                      what happens to the collection
    gap           changes were lost for good                   is streamed on
    deletions     deletions may have gone unreported           is streamed on, and snapshots continue
    undecodable   its entries can't be decoded                 is set aside; its entries become dead letters
    refused       its topic refuses events                     is set aside; its events are kept

No other collection waits for it. A snapshot of all its rows *takes it up*: from then on its entries are
decoded again, so that the snapshot has a log to be merged with. When the snapshot completes, the copy is
complete. The rows read contain the entries that passed while it was set aside. Only deletions from that time
are never reported.

Kept events of a refused collection are sent as soon as its topic takes events again (`release.py`), oldest
first and before anything newer. If more is missing than was kept, the collection is then streamed with a gap.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from engine.model import CollectionId
    from engine.snapshot.queue_entry import Table


_GONE = "no snapshot tells of rows that are gone: remove them from the copy"
_SNAPSHOT = "other tables go on; a completed snapshot of this one makes its copy whole"
_REPAIR = f"{_SNAPSHOT}, except for rows that are gone; a repair removes those, too"
_COMES_BACK = (
    "other tables go on; what is kept goes out once the topic takes events again,"
    " and a completed snapshot makes its copy whole, too"
)


class Cause(StrEnum):
    """Why a collection is incomplete."""

    GAP = "gap"
    DELETIONS = "deletions"
    UNDECODABLE = "undecodable"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Incomplete:
    """A collection that lacks something.

    - `since` is the place in the log from which it does, in the database's format; `why` is the reason.
    - `kept` entries since then are dead letters, of `size` bytes. `dropped` more were only counted.
    - `taken_up` is the ticket of the snapshot that takes it up, 0 for none.

    For a refused collection:

    - `gap` says whether it lacks more than what is kept.
    - Kept events before `out` (turn, bundle number, event in it) were sent, or a snapshot contains them.
    - `epochs` are the leases under which events were kept, each with its first turn. Bundles of other leases
      don't count: a job that lost its lease may have kept some later.
    """

    collection: CollectionId
    cause: Cause
    since: str
    why: str
    taken_up: int = 0
    kept: int = 0
    size: int = 0
    dropped: int = 0
    gap: bool = False
    out: tuple[int, int, int] = (0, 0, 0)
    epochs: tuple[tuple[int, int], ...] = ()

    @property
    def aside(self) -> bool:
        """Whether it is set aside now."""
        return not self.streamed and not self.taken_up

    @property
    def streamed(self) -> bool:
        """Whether the collection is streamed nevertheless."""
        return self.cause in {Cause.GAP, Cause.DELETIONS}

    def __str__(self) -> str:
        if self.streamed:
            what = "changes" if self.cause is Cause.GAP else "deletions"
            return f"{self.collection} lacks {what} since {self.since}: {self.why}"
        kept = (
            f" ({self.kept} entries kept, {self.dropped} more counted)" if self.kept or self.dropped else ""
        )
        return f"{self.collection} is set aside since {self.since}: {self.why}{kept}"


@dataclass(frozen=True, slots=True)
class Letters:
    """Entries of a collection that is set aside: count, size, and a callable for the lines to keep."""

    count: int
    size: int
    lines: Callable[[], Iterable[bytes]]


def advice(fault: Incomplete) -> str:
    """What to do about a fault, or what will happen by itself."""
    if fault.cause is Cause.REFUSED:
        return _COMES_BACK
    if fault.cause is Cause.DELETIONS:
        return _GONE
    return _REPAIR if fault.cause is Cause.GAP else _SNAPSHOT


def letter(position: str, transaction: int | str | None, operation: str, message: bytes) -> bytes:
    """The line of JSON that keeps an entry; `message` is stored as base64."""
    fields = {
        "position": position,
        "transaction": transaction,
        "operation": operation,
        "message": b64encode(message).decode(),
    }
    return orjson.dumps(fields)


def aside_collections(known: Iterable[Incomplete]) -> frozenset[CollectionId]:
    """The collections that are set aside now."""
    return frozenset(fault.collection for fault in known if fault.aside)


def undecodable(faults: Mapping[CollectionId, str], since: str) -> tuple[Incomplete, ...]:
    """The collections whose entries can't be decoded from `since` on; `faults` has the reasons."""
    return tuple(Incomplete(name, Cause.UNDECODABLE, since, why) for name, why in faults.items())


def with_faults(known: Sequence[Incomplete], found: Iterable[Incomplete]) -> tuple[Incomplete, ...]:
    """Add what was found. A collection that was incomplete before keeps its older `since`."""
    collections = {fault.collection: fault for fault in known}
    for new in found:
        before = collections.get(new.collection)
        if before is None:
            collections[new.collection] = new
        elif new.cause is not Cause.DELETIONS:
            # Setting aside outweighs a gap. A collection that is taken up and fails again is set aside again.
            weaker = new.cause is Cause.GAP and before.cause is not Cause.DELETIONS
            cause = before.cause if weaker else new.cause
            collections[new.collection] = replace(before, cause=cause, why=new.why, taken_up=0, gap=True)
        elif before.cause is Cause.REFUSED:
            collections[new.collection] = replace(before, gap=True)
    return tuple(collections.values())


def with_gap(known: Iterable[Incomplete], collection: CollectionId) -> tuple[Incomplete, ...]:
    """Note that a collection lacks more than what is kept of it."""
    return tuple(replace(fault, gap=True) if fault.collection == collection else fault for fault in known)


def with_counts(
    known: Iterable[Incomplete], letters: Mapping[CollectionId, Letters], kept: Collection[CollectionId]
) -> tuple[Incomplete, ...]:
    """Add a turn's letters to the counts. Those of the collections in `kept` were stored."""

    def added(entry: Incomplete) -> Incomplete:
        more = letters.get(entry.collection)
        if more is None:
            return entry
        if entry.collection in kept:
            return replace(entry, kept=entry.kept + more.count, size=entry.size + more.size)
        return replace(entry, dropped=entry.dropped + more.count)

    return tuple(map(added, known))


def with_taken_up(known: Iterable[Incomplete], tables: Iterable[Table], turn: int) -> tuple[Incomplete, ...]:
    """Mark the collections that the queue reads whole as taken up, by the first entry that does.

    A collection that no entry reads any more, and none has completed, is set aside again. Its events kept up
    to `turn` will not be sent, since newer events may have been sent meanwhile.
    """
    tickets: dict[CollectionId, list[int]] = {}
    for table in tables:
        if table.target.whole:
            tickets.setdefault(table.target.collection, []).append(table.ticket)
    return tuple(_taken_up(fault, _ticket(fault, tickets.get(fault.collection, [])), turn) for fault in known)


def _taken_up(fault: Incomplete, ticket: int, turn: int) -> Incomplete:
    if ticket and not fault.taken_up and not fault.streamed:
        return replace(fault, taken_up=ticket, gap=True, out=(turn + 1, 0, 0))
    return replace(fault, taken_up=ticket)


def _ticket(fault: Incomplete, tickets: Sequence[int]) -> int:
    return fault.taken_up if fault.taken_up in tickets else min(tickets, default=0)


def without_completed(known: Iterable[Incomplete], table: Table) -> tuple[Incomplete, ...]:
    """Remove the collection that an entry of the queue has read completely, if it read all rows."""
    return tuple(fault for fault in known if not _made_whole(fault, table))


def _made_whole(fault: Incomplete, table: Table) -> bool:
    if fault.collection != table.target.collection or not table.target.whole:
        return False
    return fault.streamed or fault.taken_up == table.ticket
