"""The transaction that a span leaves open, and its form in a saved state. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

from engine.saved import Natural  # noqa: TC001  the form is read at run time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.events.record.transactions import Counts


class SavedTransaction(TypedDict):
    """A transaction that may have further events, with its events so far by collection."""

    id: str
    collections: list[tuple[str, Natural]]


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that may have further events, with its event counts so far, by collection.

    `restored` says that it comes from a saved state and has had no event since.
    """

    id: str
    collections: Counts = ()
    restored: bool = False

    @property
    def events(self) -> int:
        """The number of events so far."""
        return sum(count for _name, count in self.collections)

    def counted(self, collection: str) -> OpenTransaction:
        """The transaction after one more event of a collection."""
        counts = dict(self.collections)
        counts[collection] = counts.get(collection, 0) + 1
        return replace(self, collections=tuple(counts.items()), restored=False)


def to_json(transaction: OpenTransaction | None) -> SavedTransaction | None:
    """Encode for the state."""
    if transaction is None:
        return None
    return {"id": transaction.id, "collections": list(transaction.collections)}


def from_json(saved: Mapping[str, Any] | None) -> OpenTransaction | None:
    """Decode from the state."""
    if saved is None:
        return None
    collections = tuple((name, count) for name, count in saved["collections"])
    return OpenTransaction(saved["id"], collections, restored=True)
