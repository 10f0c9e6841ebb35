"""What decoding a part of the change stream gives: its events, and the facts that the driver needs. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from engine.events.counts import NO_EVENTS, EventCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from adapters.mongodb.documents.bson_walk import ClusterTime
    from adapters.source.log.open_transaction import OpenTransaction
    from engine.model import CollectionId, Part, SignalRow
    from engine.snapshot.merge import SupersededKeys


@dataclass(frozen=True, slots=True)
class Watch:
    """What to note for the open windows: entries of these collections after the windows' cluster times.

    `after` are those times, (seconds, ordinal) each. A key is counted for each time by itself: a window that
    contains a change may also contain a rename that came later, which brings documents without events.
    """

    collections: frozenset[CollectionId] = frozenset()
    after: tuple[ClusterTime, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectionRemoval:
    """A drop, a rename to `to`, or an invalidation: of a `collection`, of a `database`, or of everything.

    The stream has no event for the documents that are lost, nor for those that a rename brings.
    """

    at: tuple[int, int]
    operation: str
    collection: CollectionId | None
    database: str | None
    to: CollectionId | None

    def among(self, collections: Iterable[CollectionId]) -> frozenset[CollectionId]:
        """Those of the collections that lose their documents."""
        return frozenset(collection for collection in collections if self._empties(collection))

    def _empties(self, collection: CollectionId) -> bool:
        if self.collection is not None:
            return collection in {self.collection, self.to}
        return self.database is None or collection.parts[0] == self.database


class Lack(StrEnum):
    """Why no event has a changed document's content, in words."""

    TOO_LARGE = "the server can't send an event over 16 MB ('cursor.oversize.handling.mode' is 'skip')"
    RESPELT = "an update wrote an '_id' otherwise, as 1.0 for 1, and came without its document"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A change without a complete event: the document, by the `_id` in events' keys, and why."""

    collection: CollectionId
    id_json: str
    operation: str
    at: tuple[int, int]
    why: Lack = Lack.TOO_LARGE


@dataclass(frozen=True, slots=True)
class DecodedPart:
    """A decoded part: its events in order, and the facts that the driver needs.

    `part` is the written file of the events, once there is one. `faults` maps collections whose changes can't
    be decoded to the reason. If there are any, the events are incomplete. `counts` are the events by
    operation. `superseded` is by the times of `Watch.after`.
    """

    events: pa.RecordBatch
    signals: tuple[SignalRow, ...]
    superseded: Mapping[ClusterTime, SupersededKeys]
    open: OpenTransaction | None
    entries: int
    part: Part | None = None
    emptied: tuple[CollectionRemoval, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    faults: Mapping[CollectionId, str] = field(default_factory=dict)
    columns: tuple[pa.RecordBatch, ...] = ()
    counts: EventCounts = NO_EVENTS
