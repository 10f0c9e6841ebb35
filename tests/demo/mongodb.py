"""The demo on MongoDB: a replica set of its own, two collections, and their comparison byte by byte.

The articles in stock have ids of several types in one collection, as collections grow over the years.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from bson.binary import Binary
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument

from adapters.mongodb.log.position import has_passed
from tests import replay
from tests.demo.load import Lag
from tests.demo.mongodb_users import mongodb_users
from tests.demo.tidemark import PREFIX
from tests.strict_json import CODEC, bson_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from bson.codec_options import CodecOptions
    from pymongo import MongoClient

    from engine.job.saved.state import State
    from tests.demo.load import Load
    from tests.demo.users import Users
    from tests.servers.mongodb import MongoServer

ORDERS: Final = ("shop", "orders")
STOCK: Final = ("inventory", "stock")
SIGNALS: Final = ("shop", "tidemark_signal")
_AT_ONCE = 20_000
_SHOWN = 5
_RAW: CodecOptions[Any] = CODEC.with_options(document_class=RawBSONDocument)
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_NOTES = (
    "",
    "Grüße, 你好, 🌊",
    "say \"hello\" \\ or 'bye'",
    "first line\nsecond\tline\r",
    "unit\x1fseparator",
)


def order(number: int) -> dict[str, Any]:
    """The order of this number at the start."""
    found = {
        "_id": number,
        "customer": number % 50_000 + 1,
        "status": ("new", "paid", "shipped", "returned")[number % 4],
        "amount": Decimal128(f"{(number * 7919) % 1_000_000 - 5000}E-2"),
        "weight": number * 0.1,
        "paid": number % 3 == 0,
        "contact": f"customer{number % 50_000}@example.org",
        "details": {"items": number % 9, "tags": ["a", None, "é"]},
        "placed_at": _BEGIN + timedelta(milliseconds=17_000 * number),
    }
    if number % 12 < len(_NOTES):
        found["note"] = _NOTES[number % 12]
    return found


def article_id(number: int) -> Any:
    """The `_id` of an article: of four types, which the server orders each by itself."""
    sku = number * 37 % 1_000_003
    match number % 4:
        case 0:
            return {"warehouse": "Zürich", "sku": sku}
        case 1:
            return f"SKU-{sku:07d}"
        case 2:
            return Int64(sku)
    return ObjectId(hashlib.md5(str(number).encode(), usedforsecurity=False).digest()[:12])


def article(number: int) -> dict[str, Any]:
    """The article of this number at the start."""
    return {
        "_id": article_id(number),
        "quantity": number % 500,
        "price": number % 90_000 / 10_000 if number % 13 else None,
        "shelf": _NOTES[number % len(_NOTES)],
        "batch": Binary(number.to_bytes(16, "big"), 4),
        "counted": Int64(number << 33),
        "active": number % 7 > 0,
    }


@dataclass(slots=True)
class MongoShop:
    """A server of its own for one demo."""

    server: MongoServer
    names: tuple[str, ...] = (".".join(ORDERS), ".".join(STOCK))
    units: str = "documents"
    _client: MongoClient[dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        self._client = self.server.connect()

    def close(self) -> None:
        """Give up the connection."""
        self._client.close()

    def prepare(self, load: Load) -> str:
        """Make collections and documents."""
        for (database, name), make, count in (
            (ORDERS, order, load.orders),
            (STOCK, article, load.stock),
        ):
            collection = self._client[database][name]
            for first in range(1, count + 1, _AT_ONCE):
                numbers = range(first, min(count + 1, first + _AT_ONCE))
                collection.insert_many(map(make, numbers), ordered=False)
        self._client[SIGNALS[0]].create_collection(SIGNALS[1])
        return (
            "it reads a change stream and, at one cluster time a window, the collections; it writes nothing"
        )

    def properties(self) -> dict[str, str]:
        """The job's source."""
        return {
            "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
            "mongodb.connection.string": self.server.uri,
            "collection.include.list": ",".join(self.names),
            "signal.data.collection": ".".join(SIGNALS),
        }

    def streams(self, state: State | None) -> bool:
        """Whether the job has saved a position."""
        return state is not None and state.position is not None

    def users(self, load: Load) -> Users:
        """Threads that write."""
        return mongodb_users(
            self.server,
            orders=load.orders,
            articles=[article_id(number) for number in range(1, load.stock + 1)],
            per_s=load.writes_per_s,
        )

    def signal(self, data: dict[str, Any]) -> str:
        """Insert the signal's document."""
        text = json.dumps({"type": "execute-snapshot", "data": data})
        self._client[SIGNALS[0]][SIGNALS[1]].insert_one(json.loads(text))
        return f'db.getSiblingDB("{SIGNALS[0]}").{SIGNALS[1]}.insertOne({text});'

    @contextmanager
    def lag(self) -> Iterator[Callable[[State | None], float]]:
        """By the position that the job has saved."""
        lag = Lag()
        yield lambda state: lag.seconds(self._now(), _time_of(state))

    def end(self) -> tuple[str, Callable[[State | None], bool]]:
        """The newest cluster time; a document behind it ends the stream visibly."""
        end = self._now()
        message = {"message": "the writers have stopped"}
        self._client[SIGNALS[0]][SIGNALS[1]].insert_one({"type": "log", "data": message})
        return f"Timestamp({end[0]}, {end[1]})", lambda state: bool(
            state and state.position and has_passed(state.position, end)
        )

    def _now(self) -> tuple[int, int]:
        stamp = self._client.admin.command("ping")["operationTime"]
        return stamp.time, stamp.inc

    def compared(self, events: Path) -> tuple[replay.Figures, list[replay.Compared], list[str]]:
        """Lay the documents that the events leave beside those that a scan finds, as bytes."""
        figures, wrong, compared = replay.Figures(), list[str](), list[replay.Compared]()
        left = _left(events, {f"{PREFIX}.{name}": name for name in self.names}, figures)
        for table in (ORDERS, STOCK):
            name = ".".join(table)
            scanned: Any = self._client[table[0]].get_collection(table[1], codec_options=_RAW)
            cursor: Iterable[RawBSONDocument] = scanned.find()
            there = {_digest(bytes(document.raw)): document for document in cursor}
            figures.rows[table] = len(left[name])
            compared.append(replay.Compared(table, _checksum(there), _checksum(left[name])))
            lost = [digest for digest in there if digest not in left[name]][:_SHOWN]
            extra = [left[name][digest] for digest in left[name] if digest not in there][:_SHOWN]
            wrong += [f"{name}: only in the source: {bytes(there[digest].raw)!r}" for digest in lost]
            wrong += [f"{name}: only in the replay: {text}" for text in extra]
        return figures, compared, wrong


def _time_of(state: State | None) -> tuple[int, int]:
    data = str(state.position.order[0]) if state and state.position else "82" + "0" * 16
    return int(data[2:10], 16), int(data[10:18], 16)


def _left(events: Path, topics: dict[str, str], figures: replay.Figures) -> dict[str, dict[bytes, str]]:
    """By collection: the documents that the newest event of each key leaves, by their digests."""
    left: dict[str, dict[bytes, str]] = {name: {} for name in topics.values()}
    seen: dict[str, set[str]] = {topic: set() for topic in topics}
    for topic, key, value in replay.keyed_newest_first(events):
        if topic not in topics:
            continue
        figures.operations[None if value is None else value["op"]] += 1
        # an update whose document was gone when it was looked up is followed by its deletion
        if value is None or key["id"] in seen[topic]:
            continue
        seen[topic].add(key["id"])
        if value["op"] != "d":
            left[topics[topic]][_digest(bson_of(value["after"]))] = value["after"]
    return left


def _digest(document: bytes) -> bytes:
    return hashlib.md5(document, usedforsecurity=False).digest()


def _checksum(digests: dict[bytes, Any]) -> replay.Checksum:
    whole = hashlib.md5(b"".join(sorted(digests)), usedforsecurity=False)
    return replay.Checksum(len(digests), whole.hexdigest())
