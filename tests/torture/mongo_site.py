"""A history's MongoDB: its collections, the writers' acts, and the truth by the driver's own change stream.

What is true of an update is the image that the server keeps of the document right behind it, which the
job never asks for.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bson.raw_bson import RawBSONDocument
from pymongo.errors import DuplicateKeyError, PyMongoError

from tests.strict_json import CODEC, bson_of, value_of
from tests.torture.documents import DATABASE, canonical, document, key_of, options, plain, row
from tests.torture.emitted import Emitted
from tests.torture.mongo_oracle import DROPPED, HIDDEN, RENAMED, DocumentOracle
from tests.torture.mongo_writers import DocumentWriter, Room
from tests.torture.oracle import Oracle, Table
from tests.torture.truth import Entry, UnexpectedWrite

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pymongo import MongoClient

    from tests.servers.mongodb import MongoServer
    from tests.torture.journal import JournalReader
    from tests.torture.play import Play
    from tests.torture.script import Round, Script, Sent
    from tests.torture.truth import Row

SIGNALS = f"{DATABASE}.signals"
_TRUTH = "truth"
_PATIENCE_S = 60.0
_OPS = {"insert": "c", "update": "u", "replace": "u", "delete": "d"}


@dataclass(slots=True)
class MongoSite:
    """Collections for one script, in the server's database of histories."""

    script: Script
    server: MongoServer
    client: MongoClient[dict[str, Any]]
    oracle: Oracle = field(init=False)
    signals: str = SIGNALS
    begins_late: bool = True
    transactions: int = 0
    _room: Room = field(default_factory=Room)
    _token: Any = None
    _marks: int = 0

    def __post_init__(self) -> None:
        mode = self.script.properties["capture.mode"]
        self.oracle = DocumentOracle(looks_up="update_full" in mode)

    # Before.

    def prepare(self) -> None:
        """Make collections and documents; the truth begins behind them."""
        database = self.client[DATABASE]
        database.create_collection("signals")
        self.oracle.tables[SIGNALS] = Table(SIGNALS, ("_id",), {})
        for shape in self.script.tables:
            name, made = f"{DATABASE}.{shape.name}", [document(shape, n) for n in range(shape.rows)]
            collection = database.create_collection(shape.name, **options(shape))
            if made:
                collection.insert_many(made)
            self.oracle.tables[name] = table = Table(name, ("_id",), {})
            table.start(self.rows(name))
        with self.client.watch() as stream:
            stream.try_next()
            self._token = stream.resume_token

    def properties(self) -> dict[str, str]:
        """The job's source."""
        return {
            "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
            "mongodb.connection.string": self.server.uri,
            "mongodb.server.selection.timeout.ms": "3000",
            "collection.include.list": rf"{DATABASE}\.t\d+,{DATABASE}\.signals",
        }

    # Meanwhile.

    def act(self, scene: str, play: Play, journal: JournalReader) -> None:
        """There are none."""
        raise NotImplementedError(scene)

    def writers(
        self,
        number: int,
        one: Round,
        stop: threading.Event,
        journal: JournalReader,  # noqa: ARG002
    ) -> list[DocumentWriter]:
        """One for each list of transactions."""
        return [
            DocumentWriter(f"{number}w{place}", self.client, self.script.tables, acts, stop, self._room)
            for place, acts in enumerate(one.writers)
        ]

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
        """Stop, kill or depose the primary, and have it come back."""
        if how == "stepdown":
            with contextlib.suppress(PyMongoError):
                self.client.admin.command({"replSetStepDown": 1, "force": True})
            with contextlib.suppress(PyMongoError):
                self.client.admin.command({"replSetFreeze": 0})
            return
        if how == "fast":
            self.server.stop()
        else:
            self.server.kill()
        self.server.start()

    # At rest.

    def settle(self) -> None:
        """Nothing is left behind: the server ends transactions whose client is gone."""

    def mark(self) -> int:
        """The time of a signal."""
        self._marks += 1
        signal = {"_id": f"mark{self._marks}", "type": "log", "data": {"message": "mark"}}
        with self.client.start_session() as session:
            self.client[DATABASE]["signals"].insert_one(signal, session=session)
            return _number(session.operation_time)

    def passed(self, position: Sequence[Any], end: int) -> bool:
        """By the cluster time that begins a resume token."""
        return _time_of(position) >= end

    def entries(self) -> list[Entry]:
        """By the driver's change stream, with the images of updated documents."""
        self.client[_TRUTH]["ends"].insert_one({"at": time.time()})
        found: list[Entry] = []
        until = time.monotonic() + _PATIENCE_S
        with self.client.watch(start_after=self._token, full_document="whenAvailable") as stream:
            while time.monotonic() < until:
                change = stream.try_next()
                self._token = stream.resume_token
                if change is None:
                    continue
                if change["ns"]["db"] == _TRUTH:
                    self.transactions += len({one.transaction for one in found})
                    return found
                if change["ns"]["db"] == DATABASE:
                    found += _entries(change, self.oracle.tables)
        raise RuntimeError("the change stream does not come to its end")

    def begin(self, journal: JournalReader) -> int | None:
        """Where the stream was opened for the first turn that counts."""
        begin: int | None = None
        for note in journal.of("opened", "committed", "turn"):
            if note["what"] != "opened":
                break
            begin = _time_of(note["position"])
        return begin

    def is_before(self, entry: Entry, begin: int) -> bool:
        """By its cluster time."""
        return entry.transaction < begin

    def signal_id(self, row: Row) -> str | None:
        """Its id, where that is a text."""
        value = value_of(row.get("_id") or "null")
        return value if isinstance(value, str) else None

    def marks_window(self, entry: Entry) -> bool:
        """A window's mark."""
        return "snapshot-window-" in (entry.new.get("doc") or "")

    def emitted(self, turn: int, topic: str, key: Any, value: Any) -> Emitted | None:
        """Read an event of a document."""
        if value is None:
            return None
        source, id_key = value["source"], key_of(value_of(key["id"]))
        table = f"{source['db']}.{source['collection']}"
        if not topic.endswith(table):
            raise UnexpectedWrite(f"an event of {table} is in topic {topic}")
        after = {} if value["op"] == "d" else _image(id_key, value["after"])
        before = _image(id_key, value["before"])
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
        """By a scan."""
        raw = CODEC.with_options(document_class=RawBSONDocument)
        found: Any = self.client[DATABASE].get_collection(name.partition(".")[2], codec_options=raw).find()
        return [row(plain(bytes(one.raw))) for one in found]


def _image(id_key: str, text: str | None) -> dict[str, str]:
    """An image of an event; one without the document has the key alone."""
    if text is None:
        return {"_id": id_key}
    found = plain(bson_of(text))
    if key_of(found["_id"]) != id_key:
        raise UnexpectedWrite(f"an event's key is {id_key}, its document {text:.200}")
    return {"_id": id_key, "doc": canonical(found)}


def _number(stamp: Any) -> int:
    return int(stamp.time << 32) + int(stamp.inc)


def _time_of(position: Sequence[Any]) -> int:
    return int(str(position[0])[2:18], 16)


def _entries(change: Mapping[str, Any], known: Mapping[str, Table]) -> Iterator[Entry]:
    """The entry of a change event; none for what nobody captures, but for documents that may come in."""
    operation, at = change["operationType"], _number(change["clusterTime"])
    name = f"{DATABASE}.{change['ns'].get('coll', '')}"
    if operation == "rename":
        yield Entry(at, RENAMED, (name, f"{DATABASE}.{change['to']['coll']}"))
    elif operation == "drop":
        yield Entry(at, DROPPED, (name,))
    elif operation not in _OPS:
        raise UnexpectedWrite(f"nobody does this: {operation}")
    elif name not in known:
        yield Entry(at, HIDDEN, (name,), new=row(change["fullDocument"]))
    else:
        old: Row = {} if operation == "insert" else {"_id": key_of(change["documentKey"]["_id"])}
        if operation == "delete":
            yield Entry(at, "d", (name,), old=old)
            return
        if change["fullDocument"] is None:
            raise UnexpectedWrite(f"there is no image of a document of {name}: {change['documentKey']}")
        yield Entry(at, _OPS[operation], (name,), old=old, new=row(change["fullDocument"]))
