"""A history's MongoDB: its collections, the writers' actions, and the truth from the driver's change stream.

The truth about an update is the image of the document that the server keeps right after it. The job never
requests those images.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bson.raw_bson import RawBSONDocument
from pymongo import WriteConcern
from pymongo.errors import DuplicateKeyError, PyMongoError

from tests.servers.mongodb import MongoServer, MongoSet
from tests.strict_json import CODEC, bson_of, value_of
from tests.torture.documents import (
    DATABASE,
    canonical,
    document,
    key_of,
    let_expire,
    make,
    number_of,
    plain,
    row,
)
from tests.torture.emitted import Emitted
from tests.torture.losses import recovers
from tests.torture.mongo_losses import lose_log
from tests.torture.mongo_oracle import DROPPED, HIDDEN, RENAMED, DocumentOracle, Documents, time_of
from tests.torture.mongo_scenes import play_scene
from tests.torture.mongo_writers import Definitions, DocumentWriter, Room
from tests.torture.oracle import Table
from tests.torture.site import Lasting
from tests.torture.truth import Entry, UnexpectedWrite

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pymongo import MongoClient

    from tests.torture.journal import JournalReader
    from tests.torture.play import Play
    from tests.torture.script import Blow, Round, Script, Sent, Strike
    from tests.torture.statements import Step
    from tests.torture.truth import Row

SIGNALS = f"{DATABASE}.signals"
_TRUTH = "truth"
_PATIENCE_S = 60.0
_PAUSED_S, _CUT_OFF_S = 2.0, 0.7
_OPS = {"insert": "c", "update": "u", "replace": "u", "delete": "d"}


@dataclass(slots=True)
class MongoSite(Lasting):
    """The collections of one script, in the server's database for histories."""

    script: Script
    server: MongoServer | MongoSet
    client: MongoClient[dict[str, Any]]
    oracle: DocumentOracle = field(init=False)
    signals: str = SIGNALS
    begins_late: bool = True
    transactions: int = 0
    _room: Room = field(default_factory=Room)
    _token: Any = None
    _marks: int = 0
    _lags: bool = False

    def __post_init__(self) -> None:
        mode = self.script.properties["capture.mode"]
        self.oracle = DocumentOracle(looks_up="update_full" in mode)

    # Before.

    def prepare(self) -> None:
        """Create collections and documents. The truth begins after them."""
        database = self.client[DATABASE]
        database.create_collection("signals")
        self.oracle.tables[SIGNALS] = Table(SIGNALS, ("_id",), {})
        self._remember(int(self.script.database.get("history_s", "300")))
        late = self.script.database.get("late", "")
        if late == "lag":
            self._let_lag()
        for shape in self.script.tables:
            collection, made = make(database, shape), [document(shape, n) for n in range(shape.rows)]
            if made:
                collection.insert_many(made)
        if late == "cut off":
            self._write_alone(database)
        for shape in self.script.tables:
            name = f"{DATABASE}.{shape.name}"
            self.oracle.tables[name] = table = Documents(name, ("_id",), {}, kind=shape.key)
            table.start(self.rows(name))
        with self.client.watch() as stream:
            stream.try_next()
            self._token = stream.resume_token

    def _let_lag(self) -> None:
        """Make one member stop applying the log, until the history comes to rest."""
        if isinstance(self.server, MongoSet):
            self.server.hold_back(self.server.far)
            self._lags = True

    def _write_alone(self, database: Any) -> None:
        """Cut the primary off from its followers, and write some more."""
        if not isinstance(self.server, MongoSet):
            return
        self.server.cut_off()
        for shape in self.script.tables:
            alone = database.get_collection(shape.name, write_concern=WriteConcern(w=1))
            alone.insert_many([document(shape, n) for n in range(shape.rows, 2 * shape.rows)])

    def _remember(self, seconds: int) -> None:
        """Make the server keep its snapshot history this long, in seconds."""
        for member in self.server.members:
            with member.connect_directly() as client:
                client.admin.command("setParameter", 1, minSnapshotHistoryWindowInSeconds=seconds)

    def properties(self) -> dict[str, str]:
        """The job's source. With several members, it is told to read from one that may lag."""
        several = "&readPreference=secondary&readPreferenceTags=member:2"
        return {
            "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
            "mongodb.connection.string": self.server.uri + (several if self._several else ""),
            "mongodb.server.selection.timeout.ms": "3000",
            "collection.include.list": rf"{DATABASE}\.t\d+,{DATABASE}\.signals",
        }

    # Meanwhile.

    @property
    def _several(self) -> bool:
        return len(self.server.members) > 1

    @property
    def _definitions(self) -> Definitions:
        return Definitions(self.client, self.script.tables, self._room)

    def define(self, label: str, step: Step) -> None:
        """Drop, rename or replace a collection. Raises PyMongoError if that fails."""
        self._definitions.define(label, step)

    def act(self, scene: str, play: Play, journal: JournalReader) -> None:
        """Play a scene."""
        play_scene(scene, play, self, journal)

    def writers(
        self,
        number: int,
        one: Round,
        stop: threading.Event,
        journal: JournalReader,  # noqa: ARG002
    ) -> list[DocumentWriter]:
        """One writer per list of transactions."""
        return [
            DocumentWriter(f"{number}w{place}", self._definitions, acts, stop)
            for place, acts in enumerate(one.writers)
        ]

    def hit(self, strike: Strike, label: str, stop: threading.Event) -> bool:  # noqa: ARG002  runs to its end
        """Carry out a strike; whether it succeeded."""
        try:
            self.define(label, strike.step)
        except PyMongoError:
            return False
        return True

    def send(self, sent: Sent, stop: threading.Event) -> None:
        """Insert the signal's document."""
        data: Any = sent.data
        with contextlib.suppress(ValueError, TypeError):
            data = value_of(sent.data or "")
        while True:
            try:
                self.client[DATABASE]["signals"].insert_one({"_id": sent.id, "type": sent.type, "data": data})
            except DuplicateKeyError:
                return
            except PyMongoError:
                stop.wait(0.1)
                continue
            return

    def restart(self, how: str) -> None:
        """Stop, kill or depose the primary, and bring it back."""
        server = self.server
        match how:
            case "stepdown":
                with contextlib.suppress(PyMongoError):
                    self.client.admin.command({"replSetStepDown": 1, "force": True})
                with contextlib.suppress(PyMongoError):
                    self.client.admin.command({"replSetFreeze": 0})
            case "pause":
                member = server.primary
                member.pause()
                time.sleep(_PAUSED_S)
                member.resume()
            case "lag":
                self._let_lag()
            case "isolate":
                if isinstance(server, MongoSet):
                    self._isolate(server)
            case "fast":
                server.stop()
                server.start()
            case _:
                server.kill()
                server.start()
        self.oracle.happened[f"{how} with three members" if self._several else how] += 1

    def _isolate(self, server: MongoSet) -> None:
        """Make the primary write what no follower gets, then kill it; its writes are rolled back."""
        server.cut_off()
        alone = WriteConcern(w=1)
        with (
            server.primary.connect_directly(socketTimeoutMS=2000) as client,
            contextlib.suppress(PyMongoError),
        ):
            for shape in self.script.tables:
                collection = client[DATABASE].get_collection(shape.name, write_concern=alone)
                collection.update_many({}, {"$set": {"ver": "rolled back", "v": "rolled back"}})
                collection.delete_many({"n": {"$mod": [3, 0]}})
                collection.insert_one({"_id": f"rolled back {shape.name}", "n": -1, "ver": "rolled back"})
        time.sleep(_CUT_OFF_S)
        server.kill()
        server.cut_off(on=False)
        server.start()

    # At rest.

    def deal(self, blow: Blow, play: Play, journal: JournalReader) -> str:
        """Lose the log."""
        assert isinstance(self.server, MongoServer)
        return lose_log(blow, play, journal, self.server, self.client)

    def settle(self) -> None:
        """Let a lagging member catch up, and wait until expired documents are gone.

        The server ends transactions whose client is gone.
        """
        if isinstance(self.server, MongoSet) and self._lags:
            self.server.hold_back(self.server.far, on=False)
            self._lags = False
        until = time.monotonic() + _PATIENCE_S
        kept = [shape for shape in self.script.tables if shape.key != "capped"]
        while time.monotonic() < until:
            with contextlib.suppress(PyMongoError):
                for shape in kept:  # a crash may have come between a collection and its index
                    let_expire(self.client[DATABASE][shape.name], shape)
                expired = {"gone_at": {"$exists": True}}
                if not any(self.client[DATABASE][letter.name].count_documents(expired) for letter in kept):
                    return
            time.sleep(0.1)
        raise RuntimeError("what has expired is not removed")

    def mark(self) -> int:
        """The cluster time of a new signal."""
        self._marks += 1
        signal = {"_id": f"mark{self._marks}", "type": "log", "data": {"message": "mark"}}
        with self.client.start_session() as session:
            self.client[DATABASE]["signals"].insert_one(signal, session=session)
            return _number(session.operation_time)

    def passed(self, position: Sequence[Any], end: int) -> bool:
        """Whether the cluster time in the resume token has reached the end."""
        return time_of(position) >= end

    def place_of(self, position: Sequence[Any]) -> int:
        """The cluster time that begins a resume token."""
        return time_of(position)

    def entries(self) -> list[Entry]:
        """From the driver's change stream, with the images of updated documents.

        Where logs are lost only the documents count, and nobody follows the log.
        """
        if recovers(self.script):
            return []
        self.client[_TRUTH]["ends"].insert_one({"at": time.time()})
        found: list[Entry] = []
        until = time.monotonic() + _PATIENCE_S
        # An update description may leave no room for the document.
        bare = [{"$project": {"updateDescription": 0}}]
        with self.client.watch(bare, start_after=self._token, full_document="whenAvailable") as stream:
            while time.monotonic() < until:
                change = stream.try_next()
                self._token = stream.resume_token
                if change is None:
                    continue
                if change["ns"]["db"] == _TRUTH:
                    self.transactions += len({entry.transaction for entry in found})
                    return found
                self.oracle.happened["databases dropped"] += change["operationType"] == "dropDatabase"
                if change["ns"]["db"] == DATABASE:
                    found += _entries(change, self.oracle.tables)
        raise RuntimeError("the change stream does not come to its end")

    def begin(self, journal: JournalReader) -> int | None:
        """Where the stream was opened for the first committed turn."""
        begin: int | None = None
        for note in journal.of("opened", "committed", "turn"):
            if note["what"] != "opened":
                break
            begin = time_of(note["position"])
        return begin

    def is_before(self, entry: Entry, begin: int) -> bool:
        """By cluster time."""
        return entry.transaction < begin

    def signal_id(self, row: Row) -> str | None:
        """The signal's id, if it is a text."""
        value = value_of(row.get("_id") or "null")
        return value if isinstance(value, str) else None

    def marks_window(self, entry: Entry) -> bool:
        """Whether the entry is a window's signal document."""
        return "snapshot-window-" in (entry.new.get("doc") or "")

    def emitted(self, turn: int, topic: str, key: Any, value: Any) -> Emitted | None:
        """Read an event of a document."""
        if value is None:
            return None
        source, own = value["source"], value_of(key["id"])
        table = f"{source['db']}.{source['collection']}"
        if not topic.endswith(table):
            raise UnexpectedWrite(f"an event of {table} is in topic {topic}")
        exactly = value["op"] in {"r", "c"} or value["updateDescription"] is None
        after = {} if value["op"] == "d" else _image(own, value["after"], exactly=exactly)
        before = _image(own, value["before"], exactly=False)
        return Emitted(
            turn,
            table,
            value["op"],
            before,
            after or None,
            (source["ts_ms"] // 1000 << 32) + source["ord"],
            snapshot=str(source["snapshot"]),
            described=value["updateDescription"],
        )

    def rows(self, name: str) -> list[Row]:
        """From a scan."""
        raw = CODEC.with_options(document_class=RawBSONDocument)
        found: Any = self.client[DATABASE].get_collection(name.partition(".")[2], codec_options=raw).find()
        return [row(plain(bytes(entry.raw))) for entry in found]


def _image(own: Any, text: str | None, *, exactly: bool) -> dict[str, str]:
    """An image of an event with this id. One without the document has only the key.

    The id of a document that was looked up may have been rewritten since.
    """
    if text is None:
        return {"_id": key_of(own)}
    found = plain(bson_of(text))
    same = key_of if exactly else number_of
    if same(found["_id"]) != same(own):
        raise UnexpectedWrite(f"an event's key is {own!r:.200}, its document {text:.200}")
    return {"_id": key_of(own), "doc": canonical(found)}


def _number(stamp: Any) -> int:
    return int(stamp.time << 32) + int(stamp.inc)


def _entries(change: Mapping[str, Any], known: Mapping[str, Table]) -> Iterator[Entry]:
    """The entry of a change event. None for uncaptured ones, except documents that may become captured."""
    operation, at = change["operationType"], _number(change["clusterTime"])
    if operation == "dropDatabase":  # its collections were dropped one by one
        return
    name = f"{DATABASE}.{change['ns'].get('coll', '')}"
    if operation == "rename":
        yield Entry(at, RENAMED, (name, f"{DATABASE}.{change['to']['coll']}"))
    elif operation == "drop":
        yield Entry(at, DROPPED, (name,))
    elif operation not in _OPS:
        raise UnexpectedWrite(f"nobody does this: {operation}")
    else:
        op = _OPS[operation] if name in known else HIDDEN
        old: Row = {} if operation == "insert" else {"_id": key_of(change["documentKey"]["_id"])}
        if operation == "delete":
            yield Entry(at, op, (name,), old=old)
            return
        if change["fullDocument"] is None:
            raise UnexpectedWrite(f"there is no image of a document of {name}: {change['documentKey']}")
        yield Entry(at, op, (name,), old=old, new=row(change["fullDocument"]))
