"""The port of copies: what a collection can be compared with.

A copy is compared once all rows of a collection have been seen. It knows the turns of the job, so that it can
say what it held after each of them. `comparison.py` has the rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from engine.verify.event_history import Columns

FIRST_KEYS = 10
"""How many keys of each kind a verdict names."""


@dataclass(frozen=True, slots=True)
class Span:
    """The turns of a comparison: one before the collection was measured, and the last that counts."""

    since: int
    upto: int


@dataclass(frozen=True, slots=True)
class Findings:
    """What differs, by kind: how many rows, and the first keys as JSON, or as the database writes them.

    `undecided` has the merge keys to look at again, each with the digest of its key. `equal` and `changed`
    count rows as `comparison.Compared` does.
    """

    equal: int = 0
    changed: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, tuple[str, ...]] = field(default_factory=dict)
    undecided: tuple[tuple[bytes, bytes], ...] = ()

    def __or__(self, other: Findings) -> Findings:
        """Those of other keys as well."""
        kinds = dict.fromkeys((*self.counts, *other.counts))
        return Findings(
            self.equal + other.equal,
            self.changed + other.changed,
            {kind: self.counts.get(kind, 0) + other.counts.get(kind, 0) for kind in kinds},
            {kind: (*self.first.get(kind, ()), *other.first.get(kind, ()))[:FIRST_KEYS] for kind in kinds},
            (*self.undecided, *other.undecided),
        )

    @property
    def differences(self) -> int:
        """How many rows differ."""
        return sum(self.counts.values())


class Comparison(Protocol):
    """A comparison that is going on."""

    def poll(self) -> Findings | None:
        """What was found; None until then. Raises the TidemarkError for which nothing can be found."""

    def close(self) -> None:
        """Give it up, if it is still going on. May be called twice."""


class SeenRows(Protocol):
    """Keeps the rows that windows have seen, by the ticket of their entry, while the job's session lasts."""

    def add(self, ticket: int, rows: pa.Table) -> None:
        """Add rows of SEEN_ROWS. Raises SourceError if there is no room."""

    def forget(self, ticket: int) -> None:
        """Forget all rows of an entry, if there are any."""

    def rows(self, ticket: int) -> int:
        """How many rows there are of an entry."""

    def path(self, ticket: int) -> str:
        """A file with the rows of an entry, as an Arrow stream, complete for now."""


class Copy(Protocol):
    """Something that holds what the job has sent. Two methods make one."""

    def refusal(self) -> str:
        """Why nothing can be compared with it; empty if something can."""

    def compare(
        self, topic: str, seen: tuple[SeenRows, int], span: Span, columns: Sequence[Columns]
    ) -> Comparison:
        """Begin to compare the rows seen under a ticket with what the copy holds of a topic.

        `columns` are the lists of columns that the rows had.
        """
