"""What the job asks of a MongoDB deployment, and what it writes there.

Whatever leaves for the server leaves through these classes, from the driver and from the executors alike.
Methods are named for what they answer, give typed values, and raise our own errors. Only bulk reading gets
raw answers: the change stream and the documents of a window. A simulated server takes the place of these
classes: it subclasses them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from bson.timestamp import Timestamp
from pymongo.errors import OperationFailure, PyMongoError

from adapters.mongodb.documents.bson_walk import document_starts, fields, int64
from adapters.mongodb.documents.keys import NOTHING_BETWEEN
from adapters.mongodb.server.catalog import Catalog
from adapters.mongodb.server.change_cursor import ChangeCursor
from adapters.mongodb.server.collection_probes import CollectionProbes
from adapters.mongodb.server.connection import RAW, replica_set, shared_client
from adapters.mongodb.server.failures import collection_errors, source_errors
from adapters.source.admission import admission

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pymongo import MongoClient

    from adapters.mongodb.server.connection import Connection, Server
    from engine.model import CollectionId


class Questions:
    """Questions to one deployment. Threads may share it.

    `catalog` asks about collections, `probes` about their documents.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self.catalog = Catalog(lambda: server.client)
        self.probes = CollectionProbes(lambda: server.client)

    @property
    def elections(self) -> int:
        """How often another primary was elected since the job began, as the driver has noticed."""
        return self._server.primary.elections

    def hello(self) -> dict[str, Any]:
        """What the server says of itself. Raises ConfigError if the login is refused and never worked."""
        with admission(self._server.connection.login), source_errors("connecting"):
            return self._server.client.admin.command("hello")

    def version(self) -> Sequence[int]:
        """The server's version numbers."""
        with source_errors("asking for the version"):
            found: Sequence[int] = self._server.client.admin.command("buildInfo")["versionArray"]
        return found

    def identity(self) -> dict[str, str]:
        """What identifies this replica set: its name, and its id if our role may read it.

        Raises ConfigError if it is not a replica set that can be read.
        """
        identity = {"replica_set": replica_set(self.hello())}
        try:
            config = self._server.client.admin.command("replSetGetConfig")["config"]
        except PyMongoError:  # needs the role clusterMonitor
            return identity
        return {**identity, "id": str(config["settings"]["replicaSetId"])}

    def now(self) -> tuple[int, int]:
        """The cluster time of the newest operation: seconds and ordinal."""
        with source_errors("asking for the cluster time"):
            stamp = self._server.client.admin.command("ping")["operationTime"]
        return stamp.time, stamp.inc

    def change_cursor(self, scope: tuple[str, str | int], doing: str = "") -> ChangeCursor:
        """A cursor for a change stream of this scope: a database, and a collection or 1."""
        return ChangeCursor(self._server.client, scope, doing)

    def write_signal(self, collection: CollectionId, document_id: str, kind: str, data: str = "") -> None:
        """Insert a document into a signal collection; `data` is JSON text."""
        database, name = collection.parts
        document: dict[str, Any] = {"_id": document_id, "type": kind, "payload": data}
        with source_errors("writing to the signal collection", str(collection)):
            self._server.client[database][name].insert_one(document)

    def stops(self, collection: CollectionId) -> frozenset[str] | None:
        """What tells signals apart that may ask to stop a blocking snapshot.

        None if the role may not read them.
        """
        database, name = collection.parts
        with source_errors("looking for signals", str(collection)):
            try:
                found = self._server.client[database][name].find({"type": {"$regex": "stop-snapshot"}})
                return frozenset(text for text in map(repr, found) if "blocking" in text.lower())
            except OperationFailure:
                return None

    def close(self) -> None:
        """Close the connections. Further questions open others."""
        self._server.close()


class DocumentReader:
    """What tasks ask: the documents of a collection, batch by batch, as raw BSON."""

    def __init__(self, client: Callable[[], MongoClient[dict[str, Any]]]) -> None:
        self._client = client

    def check(self) -> None:
        """Connect, or raise what keeps the task from it."""
        with source_errors("connecting from Spark's tasks"):
            self._client().admin.command("ping")

    def answers(
        self,
        collection: CollectionId,
        finds: Iterable[Mapping[str, Any]],
        concern: Mapping[str, Any],
        batch_rows: int,
    ) -> Iterator[tuple[bytes, list[int]]]:
        """The server's answers to find commands, in order, with the offsets of the documents in each.

        `concern` is the read concern, `batch_rows` the most documents of an answer.
        """
        with collection_errors("reading documents", collection), self._client().start_session() as session:
            database = session.client[collection.parts[0]]
            command = partial(database.command, codec_options=RAW, session=session)
            for find in finds:
                try:
                    yield from _answers(
                        command, collection.parts[1], {**find, "readConcern": concern}, batch_rows
                    )
                except OperationFailure as error:
                    if error.code != NOTHING_BETWEEN:
                        raise


def _answers(
    command: Callable[[dict[str, Any]], Any], name: str, find: dict[str, Any], batch_rows: int
) -> Iterator[tuple[bytes, list[int]]]:
    asked, which = find, "firstBatch"
    while True:
        raw: bytes = command({**asked, "batchSize": batch_rows}).raw
        cursor = fields(raw, fields(raw)["cursor"].start)
        starts = document_starts(raw, cursor[which].start)
        if starts:
            yield raw, starts
        identifier = int64(raw, cursor["id"].start)[0]
        if not identifier:
            return
        asked, which = {"getMore": identifier, "collection": name}, "nextBatch"


def document_reader(connection: Connection) -> DocumentReader:
    """The reader of a task, on the client that its process shares."""
    return DocumentReader(partial(shared_client, connection))


def as_of(at: tuple[int, int]) -> dict[str, Any]:
    """The read concern for documents exactly as of a cluster time."""
    return {"level": "snapshot", "atClusterTime": Timestamp(*at)}
