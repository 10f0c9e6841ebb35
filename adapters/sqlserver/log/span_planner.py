"""Plans the next span: bounded in rows, with an end that holds for all change tables. Pure.

There is a change table per capture instance, and one commit may have rows in all of them. So a span ends
between two commits. Its end is found by asking each change table how far a number of rows reaches. Only a
commit larger than a span is cut inside, by the order of its changes. The database is queried through
callables, as in `engine.snapshot.plan`.

    commits   a ─ a ─ a ─ b ─ c ─ c ─ c ─ c ─ c ─ d     change rows of all instances, in order
    spans     └────── 4 ──────┘└ cut inside c ──┘└ …
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from adapters.sqlserver.server.position import UNKNOWN_COMMAND, ZERO, LogPosition, after_lsn
from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from adapters.sqlserver.server.table import Capture


@dataclass(frozen=True, slots=True)
class Share:
    """The changes of one capture instance in a stretch of the log, `(after, upto]`.

    `instance` is its index among the captures of the stretch. `first` and `last` are the LSNs of the commits,
    both inclusive, between which its change table is read: outside, it has no rows, or another instance's are
    used.
    """

    instance: int
    capture: Capture
    after: LogPosition
    upto: LogPosition

    @property
    def first(self) -> str:
        """The first commit to read. A commit streamed in part is read again."""
        begins = after_lsn(self.after.commit) if self.after.whole else self.after.commit
        return max(begins, self.capture.start)

    @property
    def last(self) -> str:
        """The last commit to read."""
        return self.upto.commit

    @property
    def empty(self) -> bool:
        """Whether there is nothing to read."""
        return self.first > self.last or self.after >= self.upto

    def between(self, after: LogPosition, upto: LogPosition) -> Share:
        """The share of a stretch within."""
        return replace(self, after=max(self.after, after), upto=min(self.upto, upto))


def shares(captures: Sequence[Capture], after: LogPosition, upto: LogPosition) -> list[Share]:
    """Which instance to read for which commits of `(after, upto]`.

    Of two instances of one table, the older is read for the commits before the younger's start.
    """
    found = []
    for instance, capture in enumerate(captures):
        ends = [other.start for other in captures if _follows(other, capture)]
        last = min([upto, *(LogPosition(after_lsn(start, -1)) for start in ends)])
        found.append(Share(instance, capture, after, last))
    return [share for share in found if not share.empty]


def _follows(newer: Capture, older: Capture) -> bool:
    """Whether `newer` succeeds `older` as an instance of the same table."""
    return newer.table == older.table and _age(newer) > _age(older)


def _age(capture: Capture) -> tuple[str, str, int]:
    return capture.created, capture.start, capture.object_id


def completed(
    captures: Sequence[Capture], after: LogPosition, upto: LogPosition
) -> list[tuple[Capture, str]]:
    """The instances that `(after, upto]` leaves behind, each with the LSN where its successor begins.

    As in Debezium, an instance is left behind by the first commit later than that LSN.
    """
    found = []
    for capture in captures:
        stop = min((other.start for other in captures if _follows(other, capture)), default=None)
        if stop is not None and after.commit <= stop < upto.commit:
            found.append((capture, stop))
    return found


def current(captures: Sequence[Capture], position: LogPosition) -> list[Capture]:
    """For each table, the instance that has the next commit after a position."""
    taken = [capture for capture in captures if capture.start <= after_lsn(position.commit)]
    waiting = [capture for capture in captures if capture not in taken]
    chosen = [capture for capture in taken if not any(_follows(other, capture) for other in taken)]
    tables = {capture.table for capture in chosen}
    # A table that was just enabled starts later, but counts as captured.
    for capture in sorted(waiting, key=_age):
        if capture.table not in tables:
            tables.add(capture.table)
            chosen.append(capture)
    return chosen


class Probes(Protocol):
    """Queries about the change rows of some shares; answers in the shares' order."""

    def counts(self, asked: Sequence[Share], most: int) -> Sequence[int]:
        """The number of rows of each share, up to `most`."""

    def commits(self, asked: Sequence[Share], offsets: Sequence[int]) -> Sequence[str | None]:
        """For each share, the commit of the row at its offset in the change table; None past the end.

        `offsets` are in the shares' order.
        """

    def changes(self, asked: Sequence[Share], step: int) -> Sequence[Sequence[tuple[int, str]]]:
        """In shares of one commit: command and LSN of about every `step`-th row, in order, never the last."""


@dataclass(frozen=True, slots=True)
class PlannedSpan:
    """A span of one database: its shares, and its number of rows if that is small.

    `cuts` are the positions where the span is divided into tasks, in order, without its end.
    """

    after: LogPosition
    end: LogPosition
    shares: tuple[Share, ...] = ()
    rows: int | None = None
    cuts: tuple[LogPosition, ...] = ()

    @property
    def stretches(self) -> list[list[Share]]:
        """The shares that each task reads, in log order, without empty ones."""
        edges = [self.after, *self.cuts, self.end]
        found = [_within(self.shares, after, upto) for after, upto in pairwise(edges)]
        return [stretch for stretch in found if stretch]


def _within(asked: Iterable[Share], after: LogPosition, upto: LogPosition) -> list[Share]:
    return [part for share in asked if not (part := share.between(after, upto)).empty]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many rows a span may have. Up to `few` are read without a Spark job; a task reads `part` rows."""

    rows: int
    few: int
    part: int
    parts: int = 1


def plan_span(
    captures: Sequence[Capture], after: LogPosition, upto: LogPosition, bounds: Bounds, ask: Probes
) -> PlannedSpan:
    """The next span after `after`, up to `upto` at most, which is the end of a commit."""
    if not after.whole:
        return _inside(captures, after, bounds, ask)
    asked = shares(captures, after, upto)
    few = min(bounds.few, bounds.rows)
    counts = ask.counts(asked, few + 1) if asked else []
    counted = [(share, count) for share, count in zip(asked, counts, strict=True) if count]
    planned = PlannedSpan(after, upto, tuple(share for share, _count in counted), sum(counts))
    if sum(counts) <= few:
        return planned
    return _large(captures, replace(planned, rows=None), _each(dict(counted), few, bounds.rows), bounds, ask)


def _each(counts: Mapping[Share, int], few: int, rows: int) -> int:
    """How many rows each share with more than `few` rows may have."""
    large = sum(count > few for count in counts.values()) or len(counts)
    small = sum(count for count in counts.values() if count <= few) if large < len(counts) else 0
    return max(1, (rows - small) // large)


def _large(
    captures: Sequence[Capture], planned: PlannedSpan, each: int, bounds: Bounds, ask: Probes
) -> PlannedSpan:
    asked = planned.shares
    reached = [commit for commit in ask.commits(asked, [each] * len(asked)) if commit is not None]
    if not reached:
        return _cut(planned, bounds, ask)
    begun = [commit for commit in ask.commits(asked, [0] * len(asked)) if commit is not None]
    if not begun:
        # The next session finds what is lost by it, and of which tables.
        names = ", ".join(sorted({str(share.capture.table) for share in asked}))
        raise SourceError(
            f"the changes of {names} were removed from the change tables while they were counted"
        )
    earliest, first = min(reached), min(begun)
    if earliest == first:
        return _inside(captures, LogPosition(first, UNKNOWN_COMMAND, ZERO, 0), bounds, ask)
    end = LogPosition(after_lsn(earliest, -1))
    within = tuple(_within(asked, planned.after, end))
    if bounds.rows <= bounds.few:
        return replace(planned, end=end, shares=within, rows=bounds.rows)
    return _cut(replace(planned, end=end, shares=within), bounds, ask)


def _cut(planned: PlannedSpan, bounds: Bounds, ask: Probes) -> PlannedSpan:
    """Divide the span into tasks, between commits."""
    asked = [share for share in planned.shares for _cut in range(1, bounds.parts)]
    offsets = [number * bounds.part for _share in planned.shares for number in range(1, bounds.parts)]
    found = ask.commits(asked, offsets) if asked else []
    cuts = {LogPosition(after_lsn(commit, -1)) for commit in found if commit is not None}
    inside = sorted(cut for cut in cuts if planned.after < cut < planned.end)
    return replace(planned, cuts=tuple(_thinned(inside, bounds.parts - 1)))


def _thinned(cuts: Sequence[LogPosition], most: int) -> Sequence[LogPosition]:
    """At most `most` of the cuts, evenly chosen."""
    if len(cuts) <= most:
        return cuts
    return [cuts[(number + 1) * len(cuts) // (most + 1)] for number in range(most)]


def _inside(captures: Sequence[Capture], after: LogPosition, bounds: Bounds, ask: Probes) -> PlannedSpan:
    """A span inside one commit that is larger than a span: up to one of its changes, or to its end."""
    whole = LogPosition(after.commit)
    asked = shares(captures, after, whole)
    counts = ask.counts(asked, 1) if asked else []
    asked = [share for share, count in zip(asked, counts, strict=True) if count]
    each = max(1, bounds.rows // max(1, len(asked)))
    steps = ask.changes(asked, each) if asked else []
    ends = sorted({change for changes in steps for change in changes[:1]})
    end = LogPosition(after.commit, *ends[0], _LAST_OPERATION) if ends else whole
    few = bounds.rows if bounds.rows <= bounds.few else None
    planned = PlannedSpan(after, end, tuple(_within(asked, after, end)), few)
    return replace(planned, cuts=_cuts_inside(planned, bounds, ask))


_LAST_OPERATION = 9
"""Greater than every operation's number, so that a change is streamed with all its rows."""


def _cuts_inside(planned: PlannedSpan, bounds: Bounds, ask: Probes) -> tuple[LogPosition, ...]:
    if bounds.parts < 2 or not planned.shares:
        return ()
    steps = ask.changes(planned.shares, bounds.part)
    found = {
        LogPosition(planned.after.commit, *change, _LAST_OPERATION) for changes in steps for change in changes
    }
    inside = sorted(position for position in found if planned.after < position < planned.end)
    return tuple(_thinned(inside, bounds.parts - 1))
