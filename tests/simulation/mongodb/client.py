"""The driver's face of the simulated replica set: the commands that the adapter sends, and what they answer.

Each command is a step: before it is answered anything may happen, and it may fail. What fails on a server
fails with the server's codes, so that the adapter's own reading of them is judged as well.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import bson
from bson.timestamp import Timestamp
from pymongo.errors import AutoReconnect, OperationFailure

from adapters.mongodb.server.connection import Connection, Server
from engine.errors import SourceError
from engine.model import CollectionId
from tests.simulation.fallible_calls import fallible
from tests.simulation.mongodb.change_events import (
    answer,
    event_of,
    invalidation,
    parts_of,
    too_large,
    wanted_of,
)
from tests.simulation.mongodb.replica_set import DATABASE, SIGNALS, Stored, high_water_mark, is_mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tests.simulation.mongodb.replica_set import Document, ReplicaSet, State, Time
    from tests.simulation.world import Life

_NOTHING_BETWEEN, _NO_NAMESPACE, _UNAVAILABLE = 51175, 26, 246
_TOO_LARGE, _HISTORY_LOST, _NOT_THERE = 10334, 286, 280
_ROW_BYTES = 100
_NONE = Stored(0, {})


@dataclass(slots=True)
class SimDeployment:
    """The replica set of a world, over restorations. `sessions` counts what ended all sessions.

    With `historic`, collections that were dropped or renamed since can be read as of a time, as from 7.0 on.
    `began` is called when a stream begins at the end of the log, `wrote` when a signal document is written.
    """

    replica_set: ReplicaSet
    historic: bool = True
    splits: bool = True
    sessions: int = 0
    poisoned: set[tuple[CollectionId, Any]] = field(default_factory=set)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    began: Callable[[int], None] = lambda _at: None
    opened: Callable[[], None] = lambda: None


class SimStream:
    """A change stream's cursor on the server."""

    def __init__(self, deployment: SimDeployment, pipeline: Sequence[Mapping[str, Any]]) -> None:
        self._deployment = deployment
        self._session = deployment.sessions
        self._out: deque[tuple[str, Document]] = deque()
        self.wanted = wanted_of(pipeline)
        self.number, self.ended = next(deployment.numbers), False
        self._told = 0
        stage, mine = pipeline[0]["$changeStream"], self._set
        self._database_alone = "allChangesForCluster" not in stage
        self._missing = ""
        if "startAfter" in stage:
            self.upto = str(stage["startAfter"]["_data"])
            self._next = self._behind(self.upto)
        elif "startAtOperationTime" in stage:
            start = stage["startAtOperationTime"]
            self.upto = high_water_mark((start.time, start.inc))
            self._next = next(
                (at for at, entry in enumerate(mine.log) if entry.time >= (start.time, start.inc)),
                len(mine.log),
            )
        else:
            seconds, ordinal = mine.clock
            self.upto, self._next = high_water_mark((seconds, ordinal + 1)), len(mine.log)
        if not self.wanted.times:
            deployment.opened()
        if "startAfter" not in stage and not self.wanted.times:
            deployment.began(self._next)
        if self._next < mine.kept or (mine.kept and self.upto < mine.log[mine.kept].text):
            raise OperationFailure("Resume of change stream was not possible", _HISTORY_LOST)

    @property
    def _set(self) -> ReplicaSet:
        return self._deployment.replica_set

    def _behind(self, text: str) -> int:
        """The first entry behind a token; what is left of an entry's parts is sent first."""
        log = self._set.log
        for at, entry in enumerate(log):
            if text.startswith(entry.text):
                if len(text) > len(entry.text) and self.wanted.splits:
                    parts = parts_of(event_of(entry, self.wanted, self._set))
                    self._out.extend(part for part in parts if part[0] > text)
                return at + 1
            if entry.text > text:
                self._missing = "" if is_mark(text) else text
                return at
        self._missing = "" if is_mark(text) else text
        return len(log)

    def more(self, most: int) -> list[Document]:
        """The next events."""
        if self._session != self._deployment.sessions:
            raise AutoReconnect("connection closed")
        found: list[Document] = []
        while len(found) < most and not self.ended:
            if not self._out and not self._load():
                break
            if self._out:
                self.upto, event = self._out.popleft()
                found.append(event)
                self.ended = event.get("operationType") == "invalidate"
        return found

    def tell(self) -> Time:
        """The time of the newest entry that the majority has. The next batch is made behind it."""
        self._told = self._set.majority
        return self._set.log[self._told - 1].time

    @property
    def on_its_way(self) -> bool:
        """Whether the network holds back the next answer.

        One without events says that there were none up to the time that the answer before told.
        """
        come = self._set.streamable
        return (
            self._session == self._deployment.sessions
            and not self._out
            and come < self._told
            and all(entry.op == "noop" for entry in self._set.log[self._next : come])
        )

    def _load(self) -> bool:
        """Take the next entry; returns false if there is none yet."""
        mine = self._set
        if self._next >= mine.streamable:
            return False
        entry = mine.log[self._next]
        if self._missing and entry.text > self._missing:
            raise OperationFailure("cannot resume stream; the resume token was not found", _NOT_THERE)
        if entry.op == "noop":
            self._next += 1
            self.upto = high_water_mark(entry.time)
            return True
        event = event_of(entry, self.wanted, mine)
        if too_large(event) and not self.wanted.splits:
            self.ended = True
            raise OperationFailure("BSONObj size is invalid", _TOO_LARGE)
        self._next += 1
        if too_large(event):
            self._out.extend(parts_of(event))
        else:
            self._out.append((event.text, {"_id": {"_data": event.text}, **event.fields}))
        if entry.op == "dropDatabase" and self._database_alone:
            self._out.append(invalidation(entry))
        return True


class SimClient:
    """One job's `MongoClient`."""

    def __init__(self, deployment: SimDeployment, life: Life) -> None:
        self.deployment, self.life = deployment, life
        self.streams: dict[int, SimStream] = {}
        self.cursors: dict[int, tuple[int, list[Document]]] = {}
        self.admin = SimDatabase(self, "admin")

    def __getitem__(self, name: str) -> SimDatabase:
        return SimDatabase(self, name)

    def asked(self, port: str = "ask") -> None:
        """A command arrives."""
        with fallible(self.life, port):
            pass

    def start_session(self) -> SimSession:
        """A session, which is a context, too."""
        return SimSession(self)

    def list_database_names(self) -> list[str]:
        """All databases."""
        self.asked()
        return ["admin", DATABASE, "local"]

    def close(self) -> None:
        """Nothing is kept."""


class SimSession:
    """A session of a client."""

    def __init__(self, client: SimClient) -> None:
        self.client, self._connected = client, client.deployment.sessions

    def has_ended(self) -> bool:
        """Whether its connection has died since the last question. The next command has another one."""
        before, self._connected = self._connected, self.client.deployment.sessions
        return before != self._connected

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.end_session()

    def end_session(self) -> None:
        """Nothing is kept."""


class SimDatabase:
    """A database of a client."""

    def __init__(self, client: SimClient, name: str) -> None:
        self._client, self._name = client, name

    @property
    def _set(self) -> ReplicaSet:
        return self._client.deployment.replica_set

    def __getitem__(self, name: str) -> SimCollection:
        return SimCollection(self._client, CollectionId((self._name, name)))

    def list_collections(self, **_options: Any) -> list[Document]:
        """The collections."""
        self._client.asked()
        return [
            {
                "name": name.parts[1],
                "type": "collection",
                "info": {"uuid": stored.uuid.to_bytes(16, "big")},
                "options": {"capped": True} if stored.capped else {},
            }
            for name, stored in sorted(self._set.newest.items())
        ]

    def command(self, command: Any, session: SimSession | None = None, **_options: Any) -> Any:
        """Answer a command. The driver repeats none: the first one over a dead connection fails."""
        if isinstance(command, str):
            return self._about(command)
        verb = next(iter(command))
        if verb == "aggregate" and session is not None and session.has_ended():
            raise AutoReconnect("connection closed")
        answers: Any = getattr(self, f"_{verb.lower()}")
        return answers(command)

    def _about(self, command: str) -> Document:
        self._client.asked()
        match command:
            case "hello":
                return {"setName": "rs0", "maxWireVersion": 21}
            case "buildInfo":
                return {"versionArray": [7, 0, 0, 0]}
            case "replSetGetConfig":
                return {"config": {"settings": {"replicaSetId": self._set.identity}}}
            case "ping":
                return {"operationTime": Timestamp(*_newest(self._set))}
        raise NotImplementedError(command)

    # Change streams.

    def _aggregate(self, command: Document) -> Any:
        self._client.asked("open_log")
        stream = SimStream(self._client.deployment, command["pipeline"])
        self._client.streams[stream.number] = stream
        return self._events(stream, "firstBatch", stream.more(command["cursor"]["batchSize"]))

    def _getmore(self, command: Document) -> Any:
        number = command["getMore"]
        if number in self._client.cursors:
            return self._documents(number, command["batchSize"], "nextBatch")
        stream = self._client.streams[number]
        # Whatever happens before the answer comes is in its time, but not in its batch.
        found = stream.more(command["batchSize"])
        self._client.asked("take")
        answered = self._events(stream, "nextBatch", found)
        if stream.wanted.times:
            self._client.life.world.pass_time(command["maxTimeMS"] / 1000)
        return answered

    def _events(self, stream: SimStream, batch: str, found: list[Document]) -> Any:
        mine, number = self._set, 0 if stream.ended else stream.number
        times = stream.tell(), _newest(mine)
        return SimpleNamespace(raw=answer(batch, found, number, stream.upto, times))

    def _killcursors(self, command: Document) -> Any:
        for number in command["cursors"]:
            self._client.streams.pop(number, None)
        return SimpleNamespace(raw=b"")

    # Documents.

    def _find(self, command: Document) -> Any:
        concern = command.get("readConcern", {})
        self._client.asked("reading" if "atClusterTime" in concern else "ask")
        plain: Document = bson.decode(bson.encode(command))
        name = CollectionId((self._name, plain["find"]))
        found = chosen(plain, self._read(name, concern).docs)
        poisoned, whole = self._client.deployment.poisoned, "projection" not in plain
        if whole and any((name, document["_id"]) in poisoned for document in found):
            raise SourceError("a document can't be read", where=name)
        number = next(self._client.deployment.numbers)
        self._client.cursors[number] = (self._client.deployment.sessions, found)
        most = len(found) if plain.get("singleBatch") else plain["batchSize"]
        return self._documents(number, most, "firstBatch", asked=False)

    def _read(self, name: CollectionId, concern: Mapping[str, Any]) -> Stored:
        """The collection as a read concern shows it."""
        mine = self._set
        if (at := concern.get("atClusterTime")) is not None:
            found = mine.as_of((at.time, at.inc)).get(name)
            now = mine.newest.get(name)
            if not self._client.deployment.historic and now is not None:
                if found is None or found.uuid != now.uuid:
                    raise OperationFailure("Unable to read from a snapshot", _UNAVAILABLE)
            elif not self._client.deployment.historic:
                return _NONE
            return found or _NONE
        after = concern.get("afterClusterTime")
        state: State = mine.newest if after is None else mine.since((after.time, after.inc))
        return state.get(name, _NONE)

    def _documents(self, number: int, most: int, batch: str, *, asked: bool = True) -> Any:
        if asked:
            self._client.asked("reading")
        session, left = self._client.cursors.pop(number)
        if session != self._client.deployment.sessions:
            raise AutoReconnect("connection closed")
        if left[most:]:
            self._client.cursors[number] = (session, left[most:])
        cursor = {batch: left[:most], "id": bson.Int64(number if left[most:] else 0), "ns": "db.t"}
        return SimpleNamespace(raw=bson.encode({"cursor": cursor, "ok": 1.0}))


class SimCollection:
    """A collection of a client."""

    def __init__(self, client: SimClient, name: CollectionId) -> None:
        self._client, self._name = client, name

    @property
    def _set(self) -> ReplicaSet:
        return self._client.deployment.replica_set

    def aggregate(self, pipeline: Sequence[Mapping[str, Any]]) -> Iterable[Document]:
        """A collection's size, or the ranks of keys."""
        self._client.asked()
        stored = self._set.newest.get(self._name)
        if "$collStats" in pipeline[0]:
            if stored is None:
                raise OperationFailure("ns does not exist", _NO_NAMESPACE)
            rows = len(stored.docs)
            return [{"storageStats": {"count": rows, "size": rows * _ROW_BYTES}}]
        if stored is None or not stored.docs:
            return []
        stages = bson.decode(bson.encode({"stages": list(pipeline)}))["stages"]
        keys = next(stage["$project"]["key"] for stage in stages if "key" in stage.get("$project", {}))
        ranked = sorted(set(keys["$literal"]))
        return [{"at": at, "rank": ranked.index(key) + 1} for at, key in enumerate(keys["$literal"])]

    def insert_one(self, document: Document) -> None:
        """Insert a document that marks a window."""
        self._client.asked()
        self._set.signal(document)

    def find(self, _filter: Document) -> list[Document]:
        """The signals that may ask to stop a blocking snapshot."""
        self._client.asked()
        stored = self._set.newest.get(SIGNALS, _NONE)
        return [doc for doc in stored.docs.values() if "stop-snapshot" in str(doc.get("type"))]


def chosen(find: Mapping[str, Any], docs: Mapping[Any, Document]) -> list[Document]:
    """What a find chooses: `_id`s listed or not, bounds of the index, order, the first few."""
    least, most = find.get("min", {}).get("_id"), find.get("max", {}).get("_id")
    if least is not None and most is not None and least >= most:
        raise OperationFailure("max must be greater than min", _NOTHING_BETWEEN)
    given = find.get("filter", {})
    conditions = [condition["_id"] for condition in given.get("$and", [given] if given else [])]
    found = [
        docs[key]
        for key in sorted(docs, key=_order)
        if (least is None or key >= least)
        and (most is None or key < most)
        and all(_meets(key, condition) for condition in conditions)
    ]
    if find.get("sort", {}).get("_id") == -1:
        found.reverse()
    found = found[find.get("skip", 0) :]
    found = found[: find["limit"]] if find.get("limit") else found
    return [{"_id": document["_id"]} for document in found] if "projection" in find else found


def _order(key: Any) -> tuple[int, Any]:
    return (isinstance(key, str), key)


def _meets(key: Any, condition: Mapping[str, Any]) -> bool:
    ((operator, values),) = condition.items()
    return (key in values) is {"$in": True, "$nin": False}[operator]


def _newest(replica_set: ReplicaSet) -> Time:
    """The time of the newest operation."""
    return replica_set.log[-1].time if replica_set.log else replica_set.clock


class SimServer(Server):
    """The adapter's `Server` for one job."""

    def __init__(self, client: SimClient) -> None:
        super().__init__(Connection("mongodb://simulated/?replicaSet=rs0"))
        self._sim: Any = client

    @property
    def client(self) -> Any:
        """The client."""
        return self._sim

    def close(self) -> None:
        """Nothing is open."""


class SimConnection:
    """The connection of a job's tasks."""

    def __init__(self, client: SimClient) -> None:
        self._client = client

    def connect(self) -> SimClient:
        """The same client."""
        return self._client
