"""Which collections can be snapshotted, their size, and where to cut them: the engine's `Tables` on MongoDB.

Owns which collections are captured, which can be snapshotted, and the queries for a collection's extent and
chunk bounds. All use the `_id` index; none scans a collection. Only the server compares bounds: its order
covers all types of `_id`, and follows the collection's collation.

A collection ends at its greatest `_id` in a state that the majority has acknowledged and that is no older
than what was streamed. A lagging member, or a primary that lost its followers, could show a lesser `_id`.
Documents above it would then be in no window and in no log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson.timestamp import Timestamp
from pymongo import ASCENDING, DESCENDING
from pymongo.errors import OperationFailure

from adapters.mongodb.documents.bson_walk import documents, fields
from adapters.mongodb.documents.keys import BY_ID, NOTHING_BETWEEN, between, id_text
from adapters.mongodb.server.catalog import Catalog
from adapters.mongodb.server.connection import RAW, Refused, collection_errors
from adapters.mongodb.snapshot.conditions import check_condition, condition_filter
from engine.config.settings import Conditions
from engine.errors import SchemaChanged, SignalError, TableBusy
from engine.snapshot.extent import Extent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from adapters.mongodb.server.catalog import Described
    from adapters.mongodb.server.connection import Server
    from engine.model import CollectionId, Key, Run, Target

_WHOLE_BYTES = 1 << 20
_DENSE = 0.2
_PATIENCE_MS = 10_000
"""How long to wait until the majority has acknowledged the primary's state."""
_SAMPLED = 100
"""How many documents to average for a collection's size, if the server does not report it."""


class MongoCollections:
    """Measures and cuts collections. Used by the job's thread alone.

    `streamed_to` is the cluster time of the newest streamed event. `beginning` is the time at which the
    initial snapshot is read while the log waits for it.
    """

    def __init__(
        self,
        server: Server,
        captures: Callable[[CollectionId], bool],
        *,
        streamed_to: Callable[[], tuple[int, int]] = lambda: (0, 0),
        beginning: Callable[[], tuple[int, int] | None] = lambda: None,
        whole_bytes: int = _WHOLE_BYTES,
        conditions: Conditions = Conditions.EXPRESSIONS,
    ) -> None:
        self._server, self._client = server, server.client
        self._captures, self._whole_bytes = captures, whole_bytes
        self._streamed_to, self._beginning = streamed_to, beginning
        self._conditions = conditions
        self.catalog = Catalog(self._client)

    def captured(self) -> Sequence[CollectionId]:
        """The collections whose changes are captured, by name."""
        return [described.id for described in self._captured()]

    def capped(self) -> frozenset[CollectionId]:
        """The captured collections that are capped."""
        return frozenset(described.id for described in self._captured() if described.capped)

    def _captured(self) -> list[Described]:
        found = self.catalog.collections().values()
        return [one for one in found if one.kind == "collection" and self._captures(one.id)]

    def groups(self) -> Mapping[CollectionId, Sequence[CollectionId]]:
        """None: every collection stands for itself."""
        return {}

    def measure(
        self, targets: Sequence[Target], *, bounded: bool = False
    ) -> list[Extent | SignalError | TableBusy]:
        """The extent of each collection, or why it can't be read."""
        at = max(self._server.now(), self._streamed_to())
        known: dict[CollectionId, Described] = {}
        for database in {target.collection.parts[0] for target in targets}:
            known |= self.catalog.collections(database)
        whole_bytes = 0 if bounded else self._whole_bytes
        measuring = _Measuring(self._server, at, self._beginning(), whole_bytes, self._conditions)
        return [measuring.judged(target, known.get(target.collection)) for target in targets]

    def boundaries(
        self, target: Target, after: Key | None, upto: Key, step_rows: int, count: int
    ) -> Sequence[Key]:
        """Find chunk bounds by probing the index, each from the last key on (`engine.snapshot.plan`).

        It does not matter which state the probes see: wherever a range is cut, both sides are read.
        """
        found: list[Key] = []
        try:
            with collection_errors("cutting the collection", target.collection):
                while len(found) < count:
                    key = self._probe(target.collection, after, upto, step_rows)
                    if key is None:
                        break
                    found.append(key)
                    after = key
        except Refused as error:
            raise error.recast(SchemaChanged) from error
        return found

    def _probe(self, collection: CollectionId, after: Key | None, upto: Key, step_rows: int) -> Key | None:
        """The key `step_rows` documents after `after`; None if there are no more below `upto`."""
        database, name = collection.parts
        find = {
            "find": name,
            "projection": {"_id": 1},
            "sort": {"_id": ASCENDING},
            **between(after, upto),
            "skip": step_rows - 1,
            "limit": 1,
            "singleBatch": True,
        }
        try:
            found = _ids(self._client[database].command(find, codec_options=RAW).raw)
        except OperationFailure as error:
            if error.code != NOTHING_BETWEEN:
                raise
            return None
        return (found[0],) if found else None

    def readings(self, runs: Sequence[Run]) -> dict[CollectionId, Described]:
        """The collections of a window as they are now. Raises SchemaChanged if one has changed."""
        databases = {run.target.collection.parts[0] for run in runs}
        known = {name: one for db in databases for name, one in self.catalog.collections(db).items()}
        for run in runs:
            described = known.get(run.target.collection)
            if described is None:
                raise SchemaChanged("it was dropped or renamed", place=run.target.collection)
            if described.key != run.key:
                raise SchemaChanged("it was dropped and made again", place=run.target.collection)
            try:
                condition_filter(run.target)
            except SignalError as error:
                raise error.recast(SchemaChanged) from error
        return known


class _Measuring:
    """One measurement, as of a cluster time or later."""

    def __init__(
        self,
        server: Server,
        at: tuple[int, int],
        beginning: tuple[int, int] | None,
        whole_bytes: int,
        conditions: Conditions,
    ) -> None:
        self._client, self._at = server.client, at
        self._beginning, self._whole_bytes = beginning, whole_bytes
        self._conditions = conditions

    def judged(self, target: Target, described: Described | None) -> Extent | SignalError | TableBusy:
        """The extent of a collection, or why it has none."""
        try:
            return self._measured(target, described)
        except (SignalError, TableBusy) as error:
            return error
        except (SchemaChanged, Refused) as error:
            return error.recast(SignalError)

    def _measured(self, target: Target, described: Described | None) -> Extent:
        described = self._checked(target, described)
        collection = target.collection
        rows, size = self._statistics(collection)
        # Documents read as of the beginning of the log do not contain later changes.
        as_of = self._beginning if target.initial and self._beginning else self._at
        if size < self._whole_bytes:
            return Extent(rows, size, whole=True, key=described.key, as_of=as_of)
        least, greatest = (self._end(collection, direction) for direction in (ASCENDING, DESCENDING))
        if greatest is None:
            return Extent(rows, size, key=described.key, as_of=as_of)
        span = _span(least, greatest, rows)
        return Extent(rows, size, greatest=(greatest,), span=span, key=described.key, as_of=as_of)

    def _checked(self, target: Target, described: Described | None) -> Described:
        """The collection, if the target can be read as requested. Raises SignalError or TableBusy."""
        place = target.collection
        if described is None:
            raise SignalError("there is no such collection", place=place)
        if described.kind != "collection":
            raise SignalError(f"it is a {described.kind}, which has no change stream", place=place)
        if target.surrogate_key is not None:
            raise SignalError("a surrogate key means nothing here: documents are read by '_id'", place=place)
        if not described.uuid:
            raise SignalError(
                "our role may not see its definition, which tells whether it was renamed while it was read",
                place=place,
                hint=f"grant listCollections on the database {target.collection.parts[0]!r}",
            )
        if described.capped and target.initial and self._beginning:
            raise TableBusy("a capped collection is read behind the others, beside the log", place=place)
        if target.condition and not target.initial and self._conditions is Conditions.OFF:
            raise SignalError(
                "conditions are not taken", place=place, hint="see tidemark.snapshot.conditions"
            )
        check_condition(self._client, target)
        return described

    def _statistics(self, collection: CollectionId) -> tuple[int, int]:
        """The number of documents, and their bytes."""
        database, name = collection.parts
        try:
            with collection_errors("measuring the collection", collection):
                (found,) = self._client[database][name].aggregate([{"$collStats": {"storageStats": {}}}])
        except Refused:
            # The role lacks collStats.
            return self._estimated(collection)
        storage = found["storageStats"]
        return int(storage["count"]), int(storage["size"])

    def _estimated(self, collection: CollectionId) -> tuple[int, int]:
        """The number of documents, and that times the mean size of a few."""
        database, name = collection.parts
        find = {"find": name, "limit": _SAMPLED, "singleBatch": True}
        with collection_errors("measuring the collection", collection):
            rows = self._client[database][name].estimated_document_count()
            raw = self._client[database].command(find, codec_options=RAW).raw
        sizes = [end - start for start, end in _first_batch(raw)]
        return rows, rows * sum(sizes) // max(1, len(sizes))

    def _end(self, collection: CollectionId, direction: int) -> str | None:
        """The least or the greatest `_id`."""
        database, name = collection.parts
        find = {
            "find": name,
            "projection": {"_id": 1},
            "sort": {"_id": direction},
            "hint": BY_ID,
            "limit": 1,
            "singleBatch": True,
            "readConcern": _concern(self._at),
            "maxTimeMS": _PATIENCE_MS,
        }
        with collection_errors("measuring the collection", collection):
            found = _ids(self._client[database].command(find, codec_options=RAW).raw)
        return found[0] if found else None


def _concern(at: tuple[int, int]) -> dict[str, Any]:
    """The read concern for a majority-acknowledged state no older than this cluster time."""
    return {"level": "majority", "afterClusterTime": Timestamp(*at)}


def _first_batch(raw: bytes) -> Iterator[tuple[int, int]]:
    """The start and end of each document in an answer."""
    cursor = fields(raw, fields(raw)["cursor"].start)
    return documents(raw, cursor["firstBatch"].start)


def _ids(raw: bytes) -> list[str]:
    """The keys of the documents in an answer."""
    return [id_text(raw, start) or "null" for start, _end in _first_batch(raw)]


def _span(least: str | None, greatest: str, rows: int) -> tuple[int, int] | None:
    """The range of integer keys, if it is dense. Between two numbers there are only numbers."""
    try:
        span = int(least or ""), int(greatest)
    except ValueError:
        return None
    return span if rows / (span[1] - span[0] + 1) >= _DENSE else None
