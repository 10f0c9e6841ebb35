"""Collections of which the copy is known to lack something, and what is done until it is whole again. Pure.

    gap           changes that never came and can't be had: the collection is streamed on
    deletions     rows that may be gone, and nobody tells of them: the collection is streamed and read on
    undecodable   its entries can't be decoded: it is set aside, its entries are kept as dead letters
    refused       its topic refuses events: it is set aside, the events it would have had are kept

Nothing else waits for such a collection. A snapshot of all its rows *takes it up*: from then on its entries
are decoded again, so that the snapshot has a log to be merged with, and once it is completed the copy is
whole. Entries that went by while it was set aside are contained in the rows that are read then; but a row
that was deleted meanwhile is told of by nobody.

What is kept of a refused collection goes out as soon as its topic takes events again (`release.py`), the
oldest first and before anything newer. Where more is lacking than what is kept, the collection is streamed
from then on, with a gap.
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
    from engine.snapshot.queue import Table


class Cause(StrEnum):
    """Why a collection is incomplete."""

    GAP = "gap"
    DELETIONS = "deletions"
    UNDECODABLE = "undecodable"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Incomplete:
    """A collection that lacks something since a place in the log, as its database writes it; `why`, in words.

    Of its entries since then `kept` are dead letters, of `size` bytes; `dropped` more were only counted.
    `taken_up` is the ticket of the snapshot that takes it up, 0 while none does.

    Of one that is refused: `gap` is whether it lacks more than what is kept. Events kept before `out` (turn,
    number of the bundle, event in it) went out, or are contained in a snapshot. `epochs` are the leases under
    which events were kept, each from a turn on: a job that lost its lease may have kept some later.
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
        """Whether its entries are dead letters for now."""
        return not self.streamed and not self.taken_up

    @property
    def streamed(self) -> bool:
        """Whether the collection is streamed on all the same."""
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
    """Entries of a collection that is set aside: how many, how large, and on demand the lines to keep."""

    count: int
    size: int
    lines: Callable[[], Iterable[bytes]]


def letter(position: str, transaction: int | str | None, operation: str, message: bytes) -> bytes:
    """The line of JSON that keeps an entry: `message` has its bytes as the log had them, in base64."""
    fields = {
        "position": position,
        "transaction": transaction,
        "operation": operation,
        "message": b64encode(message).decode(),
    }
    return orjson.dumps(fields)


def aside(known: Iterable[Incomplete]) -> frozenset[CollectionId]:
    """The collections whose entries are dead letters for now."""
    return frozenset(one.collection for one in known if one.aside)


def undecodable(faults: Mapping[CollectionId, str], since: str) -> tuple[Incomplete, ...]:
    """The collections whose entries can't be decoded since a place in the log; `faults` says why."""
    return tuple(Incomplete(name, Cause.UNDECODABLE, since, why) for name, why in faults.items())


def noted(known: Sequence[Incomplete], found: Iterable[Incomplete]) -> tuple[Incomplete, ...]:
    """With what was found; a collection that lacked something before lacks it since then."""
    collections = {one.collection: one for one in known}
    for new in found:
        before = collections.get(new.collection)
        if before is None:
            collections[new.collection] = new
        elif new.cause is not Cause.DELETIONS:
            # To be set aside is the stronger of the two; what was taken up in vain is set aside again.
            weaker = new.cause is Cause.GAP and before.cause is not Cause.DELETIONS
            cause = before.cause if weaker else new.cause
            collections[new.collection] = replace(before, cause=cause, why=new.why, taken_up=0, gap=True)
        elif before.cause is Cause.REFUSED:
            collections[new.collection] = replace(before, gap=True)
    return tuple(collections.values())


def with_gap(known: Iterable[Incomplete], collection: CollectionId) -> tuple[Incomplete, ...]:
    """With a collection that lacks more than what is kept of it."""
    return tuple(replace(one, gap=True) if one.collection == collection else one for one in known)


def counted(
    known: Iterable[Incomplete], letters: Mapping[CollectionId, Letters], kept: Collection[CollectionId]
) -> tuple[Incomplete, ...]:
    """With the letters of a turn added, of which those of some collections were kept."""

    def added(one: Incomplete) -> Incomplete:
        more = letters.get(one.collection)
        if more is None:
            return one
        if one.collection in kept:
            return replace(one, kept=one.kept + more.count, size=one.size + more.size)
        return replace(one, dropped=one.dropped + more.count)

    return tuple(added(one) for one in known)


def taken_up(known: Iterable[Incomplete], tables: Iterable[Table], turn: int) -> tuple[Incomplete, ...]:
    """As the queue stands: those are taken up that an entry reads whole, the first of several.

    What no entry reads any more, and none has completed, is set aside again. What was kept of it up to `turn`
    does not go out then: newer events may have gone out meanwhile.
    """
    tickets: dict[CollectionId, list[int]] = {}
    for table in tables:
        if table.target.condition is None:
            tickets.setdefault(table.target.collection, []).append(table.ticket)
    return tuple(_taken_up(one, _ticket(one, tickets.get(one.collection, [])), turn) for one in known)


def _taken_up(one: Incomplete, ticket: int, turn: int) -> Incomplete:
    if ticket and not one.taken_up and not one.streamed:
        return replace(one, taken_up=ticket, gap=True, out=(turn + 1, 0, 0))
    return replace(one, taken_up=ticket)


def _ticket(one: Incomplete, tickets: Sequence[int]) -> int:
    return one.taken_up if one.taken_up in tickets else min(tickets, default=0)


def completed(known: Iterable[Incomplete], table: Table) -> tuple[Incomplete, ...]:
    """Less the collection that an entry of the queue has read to its end, if it has read all of it."""
    return tuple(one for one in known if not _made_whole(one, table))


def _made_whole(one: Incomplete, table: Table) -> bool:
    if one.collection != table.target.collection or table.target.condition is not None:
        return False
    return one.streamed or one.taken_up == table.ticket
