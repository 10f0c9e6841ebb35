"""Change events as dead letters: the events of a collection that is set aside, as raw bytes.

Each line has the event's place in the log, its transaction, the operation, and the event in base64, as the
server sent it. Only fields that the server itself writes are parsed. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.mongodb.documents.bson_walk import cluster_time, fields, string
from adapters.mongodb.events.change_event import OPERATIONS, collection_of, session_of
from engine.isolation.incomplete import Letters, letter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from engine.model import CollectionId

_AROUND = 200


@dataclass(frozen=True, slots=True)
class EventsOf:
    """Change events of one collection, in log order."""

    changes: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """The approximate size of their lines, in bytes."""
        return sum(_AROUND + 4 * len(raw) // 3 for raw in self.changes)

    def lines(self) -> Iterator[bytes]:
        """One line of JSON per event, in order."""
        for raw in self.changes:
            found = fields(raw)
            seconds, ordinal = cluster_time(raw, found["clusterTime"].start)
            lsid, number = session_of(raw, found)
            transaction = None if lsid is None else f"{lsid}:{number}"
            operation = string(raw, found["operationType"].start)
            yield letter(f"Timestamp({seconds}, {ordinal})", transaction, operation, raw)


def letters_of(
    changes: Iterable[bytes], collections: Collection[CollectionId]
) -> dict[CollectionId, Letters]:
    """The document changes of these collections."""
    kept: dict[CollectionId, list[bytes]] = {}
    for raw in changes if collections else ():
        found = fields(raw)
        collection = collection_of(raw, found.get("ns"))
        if collection is None or collection not in collections:
            continue
        if string(raw, found["operationType"].start) in OPERATIONS:
            kept.setdefault(collection, []).append(raw)
    events = {collection: EventsOf(tuple(mine)) for collection, mine in kept.items()}
    return {
        name: Letters(len(collection_events.changes), collection_events.size, collection_events.lines)
        for name, collection_events in events.items()
    }
