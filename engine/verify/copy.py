"""The port of copies: what a collection can be compared with.

A copy is compared once all rows of a collection have been seen. It knows the turns of the job, so that it can
say what it held after each of them. `comparison.py` has the rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import pyarrow as pa

    from engine.model import CollectionId
    from engine.verify.event_history import Columns
    from engine.verify.saved_course import Written

Settled: TypeAlias = "Callable[[bytes], bool]"
FIRST_KEYS = 10
"""How many keys of each kind a verdict names."""
MOST_MENDED = 200_000
"""How many rows of each sort a repair sends before it compares again."""


@dataclass(frozen=True, slots=True)
class Span:
    """The turns of a comparison: one before the collection was measured, and the last that counts."""

    since: int
    upto: int


@dataclass(frozen=True, slots=True)
class ExtraRow:
    """The last event of a row that only the copy has: the digest of its key, and where its line stands."""

    key: bytes
    turn: int
    part: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Findings:
    """What differs, by kind: how many rows, and the first keys as JSON, or as the database writes them.

    `undecided` has the merge keys to look at again, each with the digest of its key; if there are `more` than
    these, all must be read again. `equal` and `changed`
    count rows as `comparison.ComparisonResult` does. For a repair, `wrong` has the merge keys of missing and
    different rows, and `extra` the rows that only the copy has: up to `MOST_MENDED` of each. `unsettled`
    counts rows that only the copy has, perhaps because windows could not see them yet, and `lacking` rows
    that no window has read and that were sent without a value. `stale`: the copy has changed in such a way
    that what windows have seen can't be compared with it. `settled`: the copy's position is not known, and
    differences were found settled instead (`settled.py`).
    """

    equal: int = 0
    changed: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, tuple[str, ...]] = field(default_factory=dict)
    undecided: tuple[tuple[bytes, bytes], ...] = ()
    wrong: tuple[bytes, ...] = ()
    extra: tuple[ExtraRow, ...] = ()
    unsettled: int = 0
    stale: bool = False
    settled: bool = False
    lacking: int = 0
    more: int = 0

    def __or__(self, other: Findings) -> Findings:
        """Those of other keys as well."""
        kinds = dict.fromkeys((*self.counts, *other.counts))
        return Findings(
            self.equal + other.equal,
            self.changed + other.changed,
            {kind: self.counts.get(kind, 0) + other.counts.get(kind, 0) for kind in kinds},
            {kind: (*self.first.get(kind, ()), *other.first.get(kind, ()))[:FIRST_KEYS] for kind in kinds},
            (*self.undecided, *other.undecided),
            (*self.wrong, *other.wrong)[:MOST_MENDED],
            (*self.extra, *other.extra)[:MOST_MENDED],
            self.unsettled + other.unsettled,
            self.stale or other.stale,
            self.settled or other.settled,
            self.lacking + other.lacking,
            self.more + other.more,
        )

    @property
    def without_unsettled(self) -> Findings:
        """Those that claim nothing of rows that only the copy has, and that did not settle."""
        return replace(self, changed=self.changed + self.unsettled, unsettled=0)

    @property
    def undecided_rows(self) -> int:
        """How many rows must be looked at again."""
        return len(self.undecided) + self.more

    @property
    def differences(self) -> int:
        """How many rows differ."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    """How a copy is to be compared. Goes to the executors.

    `columns` are the lists of columns that the rows had. `settled` says of the JSON of an event's source
    block whether measuring and all windows could see its transaction. With `mends` the findings have what
    a repair needs. `look` is a turn before the windows of the last look, be it the first one or one at
    undecided rows. Events of turns up to `earlier` come from a log before the present one, and what they tell
    of is visible to all windows, if it is there at all. So is all that was sent up to the turn `known`; -1 if
    that can't be said of any turn. `hidden`: the windows of the last look may lack something that had been
    sent before it.
    """

    span: Span
    columns: tuple[Columns, ...]
    settled: Settled
    mends: bool = False
    look: int = 0
    earlier: int = 0
    known: int = -1
    hidden: bool = False


@runtime_checkable
class TellsVisible(Protocol):
    """A `Settled` that can be compared with an earlier one."""

    def shows_all_before(self, earlier: Settled, /) -> bool:
        """Whether all transactions that had begun when `earlier` was made, and are not over, are visible."""


@runtime_checkable
class HidesSent(Protocol):
    """A `Settled` of a source that may stream a transaction before snapshots show it."""

    @property
    def hides_sent(self) -> bool:
        """Whether something was streamed by then that snapshots did not show.

        If a copy has lost a row of it, neither the copy nor a window knows its key.
        """


@runtime_checkable
class SavesVisible(Protocol):
    """A `Settled` that can be saved."""

    def saved(self) -> str:
        """Its text, from which its source makes it again."""


@dataclass(frozen=True, slots=True)
class TouchedKeys:
    """The digests of the keys that have events in some turns, up to the turn `upto`.

    `all` says that the collection was truncated, which touches every key.
    """

    keys: frozenset[bytes]
    upto: int
    all: bool = False


class Comparison(Protocol):
    """A comparison that is going on."""

    def poll(self) -> Findings | None:
        """What was found; None until then. Raises the TidemarkError for which nothing can be found."""

    def close(self) -> None:
        """Give it up, if it is still going on. May be called twice."""


class SeenRows(Protocol):
    """Keeps the rows that windows have seen, by the ticket of their entry.

    A job's next session may go on with them: see `resume`.
    """

    def add(self, ticket: int, rows: pa.Table) -> None:
        """Add rows of SEEN_ROWS. Raises SourceError if there is no room."""

    def forget(self, ticket: int) -> None:
        """Forget all rows of an entry, if there are any."""

    def path(self, ticket: int) -> str:
        """A file with the rows of an entry, as an Arrow stream, complete for now. Raises SourceError."""

    def written(self, ticket: int) -> Written:
        """How much there is of an entry, also for `resume`."""

    def resume(self, written: Mapping[int, Written]) -> frozenset[int]:
        """Go back to what there was of these entries, and forget everything else.

        Returns those of which it is still there, unharmed.
        """

    def close(self) -> None:
        """Take no more rows before `resume`."""


class Copy(Protocol):
    """Something that holds what the job has sent. Verifying takes the first three methods, repairing all."""

    def follow(self, topics: Collection[str], turn: int) -> None:
        """Know that these topics, and no others, are or will be compared, and that a turn was sent.

        Called between turns, at least once after each from `Span.since` on. Raises SourceError.
        """

    def refusal(self) -> str:
        """Why nothing can be compared with it; empty if something can."""

    def compare(self, topic: str, seen: tuple[SeenRows, int], asked: ComparisonRequest) -> Comparison:
        """Begin to compare the rows seen under a ticket with what the copy holds of a topic."""

    def touched_keys(self, topic: str, span: Span) -> TouchedKeys:
        """The keys with events in the turns after `span.since`, up to `span.upto` or less, if they are many.

        It gets further by at least one turn. Raises SourceError if events can't be read.
        """

    def rows(self, topic: str, extra: Sequence[ExtraRow]) -> list[tuple[str, str | None]]:
        """The key, without a schema, and the row of each event, as JSON. Raises SourceError."""


@runtime_checkable
class Resumes(Protocol):
    """A copy that can be compared with rows that windows have seen in an earlier session of the job."""

    def resume(self, topic: str, span: Span) -> bool:
        """Whether it tells the turns of a topic's events apart from `since` to `upto`, the newest turn sent.

        Called before the first turn of a session. Raises SourceError.
        """


@runtime_checkable
class HoldsRows(Protocol):
    """A copy that holds the present rows, and no events. It takes typed rows, and digests them itself.

    Only it knows how its own types show a value. So it gives both what windows have read and its own rows
    the form that they are compared in.
    """

    def learn(self, topic: str, captured: Mapping[str, CollectionId]) -> str:
        """Learn of which collections topics are. Returns why this topic can't be compared, else nothing."""

    def digested(self, rows: pa.Table) -> pa.Table:
        """The columns `key`, `row` and `merge_key` of typed rows (`compared_rows.TYPED`), in their order.

        Raises SourceError.
        """

    def deletes(self, topic: str, extra: Sequence[ExtraRow]) -> pa.RecordBatch:
        """What the sink must be given to delete these rows."""


@runtime_checkable
class Settles(Protocol):
    """A copy that somebody else writes, so that its position is not known. It can't be repaired."""

    @property
    def settle_s(self) -> float:
        """How many seconds it may lag. Each comparison begins so long after the last window."""

    @property
    def besides(self) -> Collection[str]:
        """Topics that the job's own copy must follow while something is compared."""

    def learn(self, topic: str, collection: CollectionId) -> str:
        """Learn of which collection a topic is. Returns why it can't be compared, else nothing."""
