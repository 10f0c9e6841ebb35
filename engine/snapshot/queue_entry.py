"""An entry of the queue: a collection, who asked for it, and how far it is read. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from engine.model import NO_LIMIT, Purpose, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.model import (
        ExecuteSnapshot,
        Key,
        Limit,
    )
    from engine.snapshot.extent import Advance, Extent, FailedSnapshot, Progress


ORDINARY: Final = 2
"""The rank of entries that are neither initial nor blocking."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a collection: `signal` is the signal's label, `id` the name that its sender gave it."""

    signal: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """An entry of the queue. `ticket` distinguishes entries for the same collection.

    `signal` and `id` are the first request's (see `Request`); `merged` holds the requests that joined while
    the entry waited. `resumes` is what an earlier entry failed to read. `ordinal` is set for entries of an
    initial or a blocking snapshot: table n of m of its database, from 1. `paused` entries wait for a signal.
    The entries of a signal share its `limit`.
    """

    ticket: int
    signal: str
    target: Target
    progress: Progress | None = None
    id: str | None = None
    resumes: FailedSnapshot | None = None
    ordinal: tuple[int, int] | None = None
    merged: tuple[Request, ...] = ()
    paused: bool = False
    priority: int = 0
    limit: Limit = NO_LIMIT

    @property
    def requests(self) -> tuple[Request, ...]:
        """All requests for this entry, each to be answered."""
        return (Request(self.signal, self.id), *self.merged)

    @property
    def cut(self) -> tuple[str, ...] | None:
        """The key that cuts the collection into ranges (`Extent.key`); None before it is measured."""
        if self.resumes is not None:
            return self.resumes.key
        return None if self.progress is None else self.progress.extent.key

    @property
    def untouched(self) -> bool:
        """Whether all of it is to be read, and no window has read any of it."""
        if self.initial or self.resumes is not None:
            return False
        return self.progress is None or self.progress.untouched

    @property
    def initial(self) -> bool:
        """Whether it belongs to the initial snapshot, which is read before the log."""
        return self.target.initial

    @property
    def blocking(self) -> bool:
        """Whether the stream waits while it is read."""
        return self.target.blocking

    @property
    def rests(self) -> bool:
        """Whether no window reads it for now: it is paused, or all is read and waits for a verdict."""
        return self.paused or (self.target.judged and self.progress is not None and self.progress.done)

    @property
    def waits(self) -> bool:
        """Whether it merely waits: nothing of it has been measured or read."""
        return self.progress is None and self.resumes is None and not self.initial

    @property
    def stage(self) -> tuple[int, str]:
        """What it is read together with; entries of other stages are read before or after it."""
        if self.initial:
            return 0, ""
        return (1, self.signal) if self.blocking else (ORDINARY, "")

    def with_extent(self, extent: Extent, now_ms: int) -> Table:
        """The entry after it was measured.

        A verification or repair that was measured before begins anew instead: what windows have seen for it
        is of another definition. `Verification.poll` forgets that while the entry is not measured.
        """
        if self.target.purpose is Purpose.MEND or (self.target.judged and self.progress is not None):
            return self.anew
        if self.resumes is not None:
            return replace(self, progress=self.resumes.progress(extent, now_ms), resumes=None)
        return replace(self, progress=extent.begun(now_ms))

    @property
    def anew(self) -> Table:
        """The entry as it was before it was measured."""
        return replace(self, target=self.target.as_asked, progress=None, resumes=None)

    @property
    def failed(self) -> FailedSnapshot | None:
        """What a collection lacks. A signal may ask for it, also if an initial entry failed.

        A verification lacks nothing: it counts only if it has compared everything.
        """
        if self.progress is None or self.target.judged:
            return None
        return self.progress.failed(replace(self.target, initial=False))

    def joined(self, command: ExecuteSnapshot) -> Table:
        """The entry with another request, which begins it anew."""
        return replace(
            self,
            progress=None,
            merged=(*self.merged, Request(command.signal, command.id)),
            priority=max(self.priority, command.priority),
        )

    def opened(self, now_ms: int) -> Table:
        """The entry once a window reads it: from then on it is being read, unless it already was."""
        if self.progress is None or self.progress.chunks:
            return self
        return replace(self, progress=replace(self.progress, since_ms=now_ms))

    def bounded(self, extent: Extent) -> Table:
        """The entry with bounds: it was to be read whole and must be cut instead.

        Bounds of another key belong to a definition that has changed. The entry stays as it is then: the next
        window finds the change, and all is read anew.
        """
        if self.progress is None or self.progress.extent.key != extent.key:
            return self
        return replace(self, progress=replace(self.progress, extent=extent, left=extent.ranges))

    def looking_again(self, keys: tuple[Key, ...]) -> Table:
        """The entry, read to its end, of which these keys are to be read again."""
        return replace(self, progress=replace(self.progress, reread=keys)) if self.progress else self

    def mending(self, keys: tuple[Key, ...]) -> Table:
        """The repair, read to its end, of which the rows under these keys are sent."""
        if self.progress is None:
            return self
        progress = replace(self.progress, reread=keys, rounds=0, emitted=0)
        return replace(self, target=replace(self.target, purpose=Purpose.MEND), progress=progress)

    def advanced(self, advance: Advance) -> Table:
        """The entry after a window; one that is not measured stays as it is."""
        return replace(self, progress=advance.apply_to(self.progress)) if self.progress else self


def entry_of(command: ExecuteSnapshot, target: Target) -> Table:
    """An entry that is in no queue, for an answer about a collection of a command."""
    return Table(0, command.signal, target, id=command.id)


def new_entries(targets: Sequence[Target], signal: str, ticket: int) -> list[Table]:
    """New entries for the targets, numbered per database."""
    totals = Counter(target.collection.database for target in targets)
    counted: Counter[str] = Counter()
    entries = []
    for number, target in enumerate(targets, ticket):
        database = target.collection.database
        counted[database] += 1
        entries.append(Table(number, signal, target, ordinal=(counted[database], totals[database])))
    return entries


def rank(table: Table) -> tuple[int, int]:
    """What the queue is ordered by.

    Initial entries come first, then blocking ones, because the log waits for them, and the others need the
    log.
    """
    return table.stage[0], -table.priority
