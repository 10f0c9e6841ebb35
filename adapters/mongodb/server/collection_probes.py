"""What is asked about the documents of one collection: its size, and `_id`s of its index. None scans it.

Only the server compares `_id`s: its order covers all types, and follows the collection's collation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bson.timestamp import Timestamp
from pymongo import ASCENDING, DESCENDING
from pymongo.errors import OperationFailure

from adapters.disclosure import condition_refused
from adapters.mongodb.documents.bson_walk import documents, fields
from adapters.mongodb.documents.keys import BY_ID, NOTHING_BETWEEN, between, id_text, ranked
from adapters.mongodb.server.connection import RAW
from adapters.mongodb.server.failures import collection_errors
from adapters.source.driver_errors import ServerRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pymongo import MongoClient

    from engine.model import CollectionId, Key, Range

_MEASURING = "measuring the collection"
_PATIENCE_MS = 10_000
"""How long to wait until the majority has acknowledged the primary's state."""
_PLANNING_MS = 5_000
_SAMPLED = 100
"""How many documents to average for a collection's size, if the server does not report it."""


@dataclass(frozen=True, slots=True)
class CollectionSize:
    """A collection's documents and their bytes, as the server counts or we estimate them."""

    documents: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the server refuses to read by a condition, and what to do, if anything."""

    reason: str
    hint: str = ""


class CollectionProbes:
    """Questions about a collection. They raise SchemaChanged if it was dropped or changed meanwhile."""

    def __init__(self, client: Callable[[], MongoClient[dict[str, Any]]]) -> None:
        self._client = client

    def size(self, collection: CollectionId) -> CollectionSize:
        """The collection's size, estimated if our role may not see the server's own figures."""
        database, name = collection.parts
        try:
            with collection_errors(_MEASURING, collection):
                (found,) = self._client()[database][name].aggregate([{"$collStats": {"storageStats": {}}}])
        except ServerRefused:
            # The role lacks collStats.
            return self._estimated(collection)
        storage = found["storageStats"]
        return CollectionSize(int(storage["count"]), int(storage["size"]))

    def _estimated(self, collection: CollectionId) -> CollectionSize:
        """The number of documents, and that times the mean size of a few."""
        database, name = collection.parts
        with collection_errors(_MEASURING, collection):
            count = self._client()[database][name].estimated_document_count()
            raw = self._found(collection, {"limit": _SAMPLED})
        sizes = [end - start for start, end in _first_batch(raw)]
        return CollectionSize(count, count * sum(sizes) // max(1, len(sizes)))

    def least_id(self, collection: CollectionId, at: tuple[int, int]) -> str | None:
        """The least `_id` as a key's text, in a state acknowledged by the majority, `at` or later."""
        return self._end(collection, at, ASCENDING)

    def greatest_id(self, collection: CollectionId, at: tuple[int, int]) -> str | None:
        """The greatest `_id`, in such a state."""
        return self._end(collection, at, DESCENDING)

    def _end(self, collection: CollectionId, at: tuple[int, int], direction: int) -> str | None:
        find = {
            "projection": {"_id": 1},
            "sort": {"_id": direction},
            "hint": BY_ID,
            "limit": 1,
            "readConcern": concern(at),
            "maxTimeMS": _PATIENCE_MS,
        }
        with collection_errors(_MEASURING, collection):
            found = _ids(self._found(collection, find))
        return found[0] if found else None

    def id_inside(self, collection: CollectionId, part: Range, skipped: int) -> str | None:
        """The `_id` that follows `skipped` others in a range, in any state; None from its end on."""
        find = {
            "projection": {"_id": 1},
            "sort": {"_id": ASCENDING},
            **between(part.after, part.upto, holds_after=part.holds_after),
            "skip": skipped,
            "limit": 1,
        }
        with collection_errors("cutting the collection", collection):
            try:
                found = _ids(self._found(collection, find))
            except OperationFailure as error:
                if error.code != NOTHING_BETWEEN:
                    raise
                return None
        return found[0] if found else None

    def ranks(self, collection: CollectionId, keys: Sequence[Key]) -> list[int]:
        """The ranks of keys in the order of the collection's `_id`s; none if it is empty."""
        database, name = collection.parts
        with collection_errors(_MEASURING, collection):
            found = list(self._client()[database][name].aggregate(ranked(keys)))
        return [int(document["rank"]) for document in found]

    def refusal(self, collection: CollectionId, condition: Mapping[str, Any]) -> Refusal | None:
        """Why the server refuses to read by this filter; None if it does not. It only plans the query."""
        database, name = collection.parts
        find = {"find": name, "filter": condition, "hint": BY_ID}
        explain = self._client()[database].command
        try:
            with collection_errors("checking the condition", collection):
                explain("explain", find, verbosity="queryPlanner", maxTimeMS=_PLANNING_MS)
        except ServerRefused as error:
            fault = error.fault
            said = fault.said if error.hint else condition_refused(fault.code, fault.name)
            return Refusal(said, error.hint)
        return None

    def _found(self, collection: CollectionId, find: Mapping[str, Any]) -> bytes:
        """The answer to a find of few documents."""
        database, name = collection.parts
        command = {"find": name, **find, "singleBatch": True}
        raw: bytes = self._client()[database].command(command, codec_options=RAW).raw
        return raw


def concern(at: tuple[int, int]) -> dict[str, Any]:
    """The read concern for a majority-acknowledged state no older than this cluster time."""
    return {"level": "majority", "afterClusterTime": Timestamp(*at)}


def _first_batch(raw: bytes) -> Iterator[tuple[int, int]]:
    """The start and end of each document in an answer."""
    cursor = fields(raw, fields(raw)["cursor"].start)
    return documents(raw, cursor["firstBatch"].start)


def _ids(raw: bytes) -> list[str]:
    """The keys of the documents in an answer."""
    return [id_text(raw, start) or "null" for start, _end in _first_batch(raw)]
