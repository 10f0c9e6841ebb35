"""How many events of each kind a part of the log has. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class EventCounts:
    """Change events by operation, and the transactions that were committed.

    `last_transaction` is the number of the last one, None if the database does not number them.
    """

    creates: int = 0
    updates: int = 0
    deletes: int = 0
    truncates: int = 0
    transactions: int = 0
    last_transaction: int | None = None

    @property
    def changes(self) -> int:
        """All change events."""
        return self.creates + self.updates + self.deletes + self.truncates

    def __add__(self, later: EventCounts) -> EventCounts:
        """Both together; `later` is the one behind."""
        last = later.last_transaction
        return EventCounts(
            self.creates + later.creates,
            self.updates + later.updates,
            self.deletes + later.deletes,
            self.truncates + later.truncates,
            self.transactions + later.transactions,
            self.last_transaction if last is None else last,
        )


NO_EVENTS = EventCounts()


def count_events(
    operations: Mapping[str, int], transactions: int = 0, last: int | None = None
) -> EventCounts:
    """The counts of events by Debezium's letters for operations."""
    of = operations.get
    return EventCounts(of("c", 0), of("u", 0), of("d", 0), of("t", 0), transactions, last)


def sum_counts(counts: Iterable[EventCounts]) -> EventCounts:
    """All counts together, in order."""
    return reduce(add, counts, NO_EVENTS)
