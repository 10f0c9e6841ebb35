"""What can be asked for, how large it is, and where to cut it: the engine's `Tables` on MongoDB.

Owns which collections are captured, which can be snapshotted, and the queries for the extent and the
boundaries of one. All of them use the `_id` index; none reads a collection through. Bounds are compared
by the server alone: its order runs across all types of `_id`, and follows the collection's collation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bson import json_util
from pymongo import ASCENDING, DESCENDING
from pymongo.errors import OperationFailure

from adapters.mongodb.keys import id_text, key_value
from adapters.mongodb.server import RAW, collection_errors, source_errors
from engine.errors import SchemaChanged, SignalError
from engine.extent import Extent
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bson.raw_bson import RawBSONDocument
    from pymongo import MongoClient
    from pymongo.collection import Collection

    from engine.errors import TableBusy
    from engine.model import Key, Run, Target

_SYSTEM = frozenset({"admin", "config", "local"})
_WHOLE_BYTES = 1 << 20
_DENSE = 0.2
_NO_SUCH_NAMESPACE = 26
_BY_ID = [("_id", ASCENDING)]


@dataclass(frozen=True, slots=True)
class Described:
    """A collection as the catalog tells of it. `uuid` changes when it is dropped and made again.

    The server reads a `capped` one at no chosen time.
    """

    id: CollectionId
    kind: str
    uuid: str
    capped: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """What key its bounds belong to."""
        return ("_id", self.uuid)


class Catalog:
    """Names and kinds of collections, read anew each time."""

    def __init__(self, client: MongoClient[dict[str, Any]]) -> None:
        self._client = client

    def collections(self, database: str | None = None) -> dict[CollectionId, Described]:
        """Those of one database, or of all but the system's; by name, views and time series too."""
        with source_errors("listing collections"):
            names = [database] if database else self._databases()
            found = [one for name in names for one in self._of(name)]
        return {one.id: one for one in sorted(found, key=lambda one: one.id)}

    def _databases(self) -> list[str]:
        return [name for name in self._client.list_database_names() if name not in _SYSTEM]

    def _of(self, database: str) -> list[Described]:
        return [
            Described(
                CollectionId((database, one["name"])),
                one["type"],
                _uuid(one),
                capped=bool(one.get("options", {}).get("capped")),
            )
            for one in self._client[database].list_collections(authorizedCollections=True)
            if not one["name"].startswith("system.")
        ]


def _uuid(listed: Any) -> str:
    uuid = listed.get("info", {}).get("uuid")
    return "" if uuid is None else bytes(uuid).hex()


class Extents:
    """Measures and cuts collections; used by the job's thread alone."""

    def __init__(
        self,
        client: MongoClient[dict[str, Any]],
        captures: Callable[[CollectionId], bool],
        *,
        whole_bytes: int = _WHOLE_BYTES,
    ) -> None:
        self._client, self._captures, self._whole_bytes = client, captures, whole_bytes
        self.catalog = Catalog(client)

    def captured(self) -> Sequence[CollectionId]:
        """The collections whose changes are captured, by name."""
        found = self.catalog.collections().values()
        return [one.id for one in found if one.kind == "collection" and self._captures(one.id)]

    def groups(self) -> Mapping[CollectionId, Sequence[CollectionId]]:
        """None: every collection is its own."""
        return {}

    def measure(
        self, targets: Sequence[Target], *, bounded: bool = False
    ) -> list[Extent | SignalError | TableBusy]:
        """The extent of each collection, or why it can't be read."""
        databases = {target.collection.parts[0] for target in targets}
        known = {name: one for db in databases for name, one in self.catalog.collections(db).items()}
        return [self._judged(target, known.get(target.collection), bounded=bounded) for target in targets]

    def _judged(
        self, target: Target, described: Described | None, *, bounded: bool
    ) -> Extent | SignalError | TableBusy:
        try:
            return self._measured(target, described, bounded=bounded)
        except SignalError as error:
            return error
        except SchemaChanged as error:
            return SignalError(error.message, place=error.place, hint=error.hint)

    def _measured(self, target: Target, described: Described | None, *, bounded: bool) -> Extent:
        place = str(target.collection)
        if described is None:
            raise SignalError("there is no such collection", place=place)
        if described.kind != "collection":
            raise SignalError(f"it is a {described.kind}, which has no change stream", place=place)
        if target.surrogate_key is not None:
            raise SignalError("a surrogate key means nothing here: documents are read by '_id'", place=place)
        collection = self._collection(target.collection)
        with collection_errors("measuring the collection", target.collection):
            _check_condition(collection, target)
            rows, size = _statistics(collection)
            if not bounded and size < self._whole_bytes:
                return Extent(rows, size, whole=True, key=described.key)
            least, greatest = (_end(collection, direction) for direction in (ASCENDING, DESCENDING))
        if greatest is None:
            return Extent(rows, size, key=described.key)
        span = _span(least, greatest, rows)
        return Extent(rows, size, greatest=(greatest,), span=span, key=described.key)

    def boundaries(
        self, target: Target, after: Key | None, upto: Key, step_rows: int, count: int
    ) -> Sequence[Key]:
        """See `engine.plan.Boundaries`: probes of the index, each from the last key on."""
        collection = self._collection(target.collection)
        found: list[Key] = []
        with collection_errors("cutting the collection", target.collection):
            while len(found) < count:
                key = _probe(collection, after, upto, step_rows)
                if key is None or key == upto:
                    break
                found.append(key)
                after = key
        return found

    def readings(self, runs: Sequence[Run]) -> dict[CollectionId, Described]:
        """The collections of a window as they are now. Raises SchemaChanged where one is not the same."""
        databases = {run.target.collection.parts[0] for run in runs}
        known = {name: one for db in databases for name, one in self.catalog.collections(db).items()}
        for run in runs:
            described = known.get(run.target.collection)
            if described is None:
                raise SchemaChanged("it was dropped or renamed", place=str(run.target.collection))
            if described.key != run.key:
                raise SchemaChanged("it was dropped and made again", place=str(run.target.collection))
        return known

    def _collection(self, collection: CollectionId) -> Collection[Any]:
        database, name = collection.parts
        return self._client[database].get_collection(name, codec_options=RAW)


def range_filter(after: Key | None, upto: Key | None) -> dict[str, Any]:
    """The documents of `(after, upto]`.

    Aggregation's comparisons run across types, unlike a query's own, and the index serves both.
    """
    bounds = (("$gt", after), ("$lte", upto))
    compared = [{op: ["$_id", {"$literal": key_value(key)}]} for op, key in bounds if key is not None]
    return {"$expr": {"$and": compared}} if compared else {}


def condition_filter(target: Target) -> dict[str, Any]:
    """The signal's condition: a filter document in extended JSON. Raises SignalError where it is none."""
    if not target.condition:
        return {}
    try:
        found = json_util.loads(target.condition)
    except (ValueError, TypeError) as error:
        raise SignalError(
            f"the condition is no filter document: {error}",
            place=str(target.collection),
            hint='write it as JSON, such as {"status": "open"}',
        ) from error
    if not isinstance(found, dict):
        raise SignalError("the condition must be a document", place=str(target.collection))
    return found


def _check_condition(collection: Collection[Any], target: Target) -> None:
    condition = condition_filter(target)
    if not condition:
        return
    try:
        collection.find(condition).limit(1).explain()
    except OperationFailure as error:
        said = (error.details or {}).get("errmsg", error)
        raise SignalError(f"the condition can't be used: {said}", place=str(target.collection)) from error


def _statistics(collection: Collection[Any]) -> tuple[int, int]:
    """Documents and bytes."""
    try:
        (found,) = collection.aggregate([{"$collStats": {"storageStats": {}}}])
    except OperationFailure as error:
        if error.code == _NO_SUCH_NAMESPACE:
            raise SchemaChanged("there is no such collection", place=collection.full_name) from error
        raise
    storage = found["storageStats"]
    return int(storage["count"]), int(storage["size"])


def _end(collection: Collection[Any], direction: int) -> str | None:
    """The least or the greatest `_id`."""
    found = collection.find({}, {"_id": 1}).sort("_id", direction).hint(_BY_ID).limit(1)
    return next((_id_of(one) for one in found), None)


def _probe(collection: Collection[Any], after: Key | None, upto: Key, step_rows: int) -> Key | None:
    """The key so many documents behind `after`; None when there are fewer up to `upto`."""
    found = (
        collection.find(range_filter(after, upto), {"_id": 1})
        .sort("_id", ASCENDING)
        .hint(_BY_ID)
        .skip(step_rows - 1)
        .limit(1)
    )
    text = next((_id_of(one) for one in found), None)
    return None if text is None else (text,)


def _id_of(document: RawBSONDocument) -> str:
    return id_text(bytes(document.raw)) or "null"


def _span(least: str | None, greatest: str, rows: int) -> tuple[int, int] | None:
    """The integers between which all keys lie, where they are dense: between numbers are only numbers."""
    try:
        span = int(least or ""), int(greatest)
    except ValueError:
        return None
    return span if rows / (span[1] - span[0] + 1) >= _DENSE else None
