"""A verification in progress, and what windows have seen for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import InvariantError
from engine.job.verify.repair import Repair
from engine.snapshot.merge_key import KEY_TYPE
from engine.verify.compared_digests import DIGEST, SEEN_ROWS, SURVIVES
from engine.verify.copy import HidesSent, HoldsRows, SavesVisible, Span, TellsVisible
from engine.verify.saved_course import SavedCourse
from engine.verify.seen_row import SeenRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from engine.verify.copy import Comparison, Settled
    from engine.verify.event_history import Columns
    from engine.verify.saved_course import Written

_NO_SPAN: Final = Span(0, 0)


@dataclass(slots=True)
class Course:
    """A verification in progress: the turn since which it goes on, and the columns that rows had.

    `settled` is `ComparisonRequest.settled`, and all of it is as of `begun_s` by the job's clock. `measured`
    says whether windows may have read it since then. `looked_at` has the digests of the keys that are looked
    at again, by merge key, and `look` is a turn before the last look began. `base` is the turn and the
    `settled` of an earlier course of the same verification, or of this one: what was sent up to that turn is
    visible to all windows once `settled` shows whatever had begun then. `waits_s` is when it began to wait
    for its copy. `outdated` says that rows have changed since then, and that no event tells of it. `hidden`
    is `ComparisonRequest.hidden`.
    """

    since: int
    settled: Settled
    begun_s: float
    measured: bool = False
    columns: dict[Columns, None] = field(default_factory=dict)
    looks: int = 1
    look: int = 0
    looked_at: dict[bytes, set[bytes]] = field(default_factory=dict)
    comparison: Comparison | None = None
    span: Span = _NO_SPAN
    position: str = ""
    repair: Repair = field(default_factory=Repair)
    base: tuple[int, Settled] | None = None
    waits_s: float | None = None
    outdated: bool = False
    hidden: bool = False

    def begin_waiting(self, now_s: float) -> None:
        """Begin to wait for the copy, unless it has begun already in the present look."""
        if self.waits_s is None:
            self.waits_s = now_s

    def has_waited(self, seconds: float, now_s: float) -> bool:
        """Whether it has waited for the copy for so many seconds."""
        return self.waits_s is not None and now_s - self.waits_s >= seconds

    @property
    def known(self) -> int:
        """`ComparisonRequest.known`."""
        turn, settled = self.base or (self.since, self.settled)
        return turn if _shows_all_before(self.settled, settled) else -1

    @property
    def hides_sent(self) -> bool:
        """Whether windows may lack something that was sent before this began."""
        return hides_sent(self.settled)

    def saved(self, written: Written) -> SavedCourse | None:
        """What the next session needs to go on with it; None: it can't."""
        settled = None if self.outdated else _text_of(self.settled)
        return None if settled is None else SavedCourse(self.since, written, settled, tuple(self.columns))

    def looks_again_at(self, undecided: Iterable[tuple[bytes, bytes]]) -> None:
        """Remember the merge keys that are looked at again, each with the digest of an event's key."""
        for merge_key, digest in undecided:
            self.looked_at.setdefault(merge_key, set()).add(digest)

    def take_over(self, before: Course) -> None:
        """Take over from an earlier course of the same verification."""
        if not before.measured:
            self.looks, self.base = max(self.looks, before.looks), before.base
        elif before.base is not None and before.known < 0:
            self.base = before.base
        else:
            self.base = before.since, before.settled


def hides_sent(settled: object) -> bool:
    """Whether windows that are read now may lack something that was sent."""
    return isinstance(settled, HidesSent) and settled.hides_sent


def _text_of(settled: object) -> str | None:
    if settled is always_settled:
        return ""
    return settled.saved() if isinstance(settled, SavesVisible) else None


def _shows_all_before(settled: object, earlier: Settled) -> bool:
    return settled.shows_all_before(earlier) if isinstance(settled, TellsVisible) else True


def holding_rows(copy: object) -> HoldsRows | None:
    """The copy as one that holds rows, if it does."""
    return copy if isinstance(copy, HoldsRows) else None


def course_of(noted: SavedCourse, settled_then: Callable[[str], Settled], now_s: float) -> Course:
    """The course of an entry that goes on in another session."""
    settled = settled_then(noted.settled) if noted.settled else always_settled
    course = Course(noted.since, settled, now_s, measured=True, look=noted.since)
    course.columns = dict.fromkeys(noted.columns)
    return course


def with_digests(copy: object, rows: pa.Table) -> pa.Table:
    """Rows of DIGESTS, with SURVIVES. Typed rows get their digests from the copy. Raises SourceError."""
    if "row" in rows.column_names:
        return rows
    if (holder := holding_rows(copy)) is None:
        raise InvariantError("typed rows are compared with a copy that holds no rows")
    found = holder.digested(rows.drop_columns(SURVIVES))
    return found.append_column(SURVIVES, rows.column(SURVIVES))


def always_settled(_source: bytes) -> bool:
    """Nothing in the copy was hidden from windows."""
    return True


def seen_rows(table: pa.Table, turn: int) -> pa.Table:
    """The rows that a slice has seen, as SEEN_ROWS."""
    kinds = (pa.scalar(int(kind), pa.int8()) for kind in (SeenRow.ROW, SeenRow.SUPERSEDED))
    seen = pc.if_else(table.column(SURVIVES), *kinds)
    turns = pa.repeat(pa.scalar(turn, pa.int64()), len(table))
    columns = [table.column(name) for name in ("key", "row", "merge_key")]
    return pa.Table.from_arrays([*columns, turns, seen], schema=SEEN_ROWS)


def absent_keys(
    asked: Sequence[bytes], tables: Sequence[pa.Table], known: Mapping[bytes, set[bytes]]
) -> list[tuple[bytes, bytes]]:
    """The keys asked for of which no row was read, each with a digest by which it is `known`.

    A row may have been read that has another event key by now. Then there is none of the old one.
    """
    columns = ("merge_key", "key")
    found = {
        pair
        for table in tables
        for pair in zip(*(table.column(name).to_pylist() for name in columns), strict=True)
    }
    wanted = ((key, digest) for key in asked for digest in sorted(known.get(key, ())))
    return [pair for pair in wanted if pair not in found]


def without_rows(keys: Sequence[tuple[bytes, bytes]], kinds: Sequence[SeenRow], turn: int) -> pa.Table:
    """Keys that no row was read of, each with its digest, as SEEN_ROWS."""
    count = len(keys)
    columns = [
        pa.array([digest for _key, digest in keys], DIGEST),
        pa.nulls(count, DIGEST),
        pa.array([key for key, _digest in keys], KEY_TYPE),
        pa.repeat(pa.scalar(turn, pa.int64()), count),
        pa.array([int(kind) for kind in kinds], pa.int8()),
    ]
    return pa.Table.from_arrays(columns, schema=SEEN_ROWS)
