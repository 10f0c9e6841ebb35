"""Collections of MongoDB that somebody else keeps, as a verification reads them.

Documents take the way of the source's own, so both sides have the text that events show. A scan is no
snapshot: a document is read at some moment of it, which `engine/verify/settled.py` allows for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from adapters.lake.table_name import CollectionTables, TableNaming
from adapters.mongodb.server.connection import connection_of
from adapters.mongodb.server.foreign_reader import ForeignReader
from adapters.mongodb.settings import MongoSettings
from adapters.verify.tables.foreign_tables import keys_found
from adapters.verify.tables.row_reads import DigestedRows
from engine.errors import SinkRefused, SourceError
from engine.model import CollectionId
from engine.verify.compared_digests import bare_keys, digests_of_rows, key_digests
from engine.verify.settled import HeldRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from adapters.mongodb.events.rows import ReadEvents
    from engine.config.sinks.against import MongoTarget
    from engine.verify.settled import HeldPlace

_LONGEST: Final = 255
"""Bytes of a collection's name with its database."""
_AT_ONCE: Final = 2_000
"""How many documents an answer has at most."""


class ForeignCollections:
    """Implements `ForeignTables`. `reads` says how documents of a collection become events."""

    def __init__(self, target: MongoTarget, reads: Callable[[CollectionId], ReadEvents]) -> None:
        self._connection = connection_of(
            MongoSettings(connection_string=target.uri, user=target.user, password=target.password)
        )
        self._reads = reads
        naming = TableNaming(target.collection_format, "its collection.name.format", _LONGEST)
        self._names = CollectionTables(naming, "")

    def check(self, topic: str, collection: CollectionId) -> None:
        """Raise SinkRefused if the collection can't have a name."""
        self._named(topic, collection)

    def table(self, topic: str, collection: CollectionId, owner: str) -> ForeignCollection:  # noqa: ARG002
        """The collection of a topic with this collection's events."""
        reader = ForeignReader(self._connection, self._named(topic, collection))
        return ForeignCollection(reader, self._reads(collection))

    def _named(self, topic: str, collection: CollectionId) -> CollectionId:
        name = self._names.of(topic, collection)
        if not name.schema:
            raise SinkRefused(f"the name {name} has no database", hint="set its collection.name.format")
        return CollectionId((name.schema, name.name))


class ForeignCollection:
    """Implements `ForeignTable`."""

    def __init__(self, reader: ForeignReader, events: ReadEvents) -> None:
        self._reader, self._events = reader, events

    def begin(self) -> int:
        """Measure it."""
        size = self._reader.size()
        if size is None:
            raise SourceError("the target has no such collection")
        return size

    def rows(self) -> Iterator[HeldRows]:
        """All documents, in the order of their `_id`."""
        first = 0
        for found in self._digested():
            count = len(found.keys)
            places = pa.array(first + np.arange(count))
            faithful = pa.repeat(pa.scalar(True), count)  # noqa: FBT003
            yield HeldRows(found.keys, found.rows, places, faithful, found.merge_keys)
            first += count

    def keys(self, places: Sequence[HeldPlace]) -> tuple[str, ...]:
        """The keys of these documents, found by their digests: others may have come before them."""
        digested = ((rows.keys, rows.shown) for rows in self._digested())
        return tuple(keys_found(places, digested).values())

    def cancel(self) -> None:
        """Close the client, which ends what is being asked."""
        self._reader.close()

    def close(self) -> None:
        """Close the client."""
        self._reader.close()

    def _digested(self) -> Iterator[DigestedRows]:
        """The documents' digests and keys."""
        for raw, starts in self._reader.answers(_AT_ONCE):
            for staged in self._events.batches(raw, np.array(starts, np.int64)):
                keys = bare_keys(staged.column("key"))
                rows = digests_of_rows(keys, staged.column("value"))
                yield DigestedRows(key_digests(keys), rows, keys, staged.column("merge_key"))
