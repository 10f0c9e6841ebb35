"""Ours and Debezium's incremental snapshot of the same MongoDB collection."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.bench.peers.engine import engine
from tests.bench.peers.measure import SETTINGS, peer_line
from tests.servers.mongodb import REPLICA_SET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.mongodb import MongoBench
    from tests.bench.peers.engine import Peer

_WARM_DOCUMENTS = 50_000
_PROBE_S = 0.5


def measure_documents(
    mongo: MongoBench, version: str, rows: int, runs: int, *, warm: int = _WARM_DOCUMENTS
) -> Iterator[dict[str, Any]]:
    """A line for each size of chunks and each run."""
    for setting in SETTINGS:
        for run in range(runs):
            ours = mongo.snapshot(rows)["per_s"]
            with mongo.server.connect() as client:
                client["bench"]["warm"].insert_many([{"_id": number, "n": number} for number in range(warm)])
            properties = {
                "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
                "mongodb.hosts": f"{REPLICA_SET}/{mongo.server.host}:{mongo.server.port}",
                "topic.prefix": "peer",
                "snapshot.mode": "never",
                "collection.include.list": "bench.t,bench.warm,bench.probe,bench.signals",
                "signal.data.collection": "bench.signals",
                "incremental.snapshot.chunk.size": str(setting.chunk),
                "key.converter.schemas.enable": "false",
                "value.converter.schemas.enable": "false",
                "poll.interval.ms": "50",
                **setting.more,
            }
            counts = {"peer.bench.t": rows, "peer.bench.warm": warm, "peer.bench.probe": 1}
            place = mongo.directory / f"peer-{setting.chunk}-{run}"
            with engine(version, properties, counts, place) as peer:
                _warmed(mongo, peer)
                theirs = rows / _asked(mongo, peer, "t")
            yield peer_line("mongodb-snapshot", "documents", rows, version, (ours, theirs)) | {
                "chunk": setting.chunk
            }


def _warmed(mongo: MongoBench, peer: Peer) -> None:
    """Snapshot the other collection, once the engine listens to what is written."""
    heard = False
    while not heard:
        with mongo.server.connect() as client:
            client["bench"]["probe"].insert_one({})
        try:
            heard = bool(peer.counted("peer.bench.probe", timeout_s=_PROBE_S))
        except TimeoutError:
            continue
    _asked(mongo, peer, "warm")


def _asked(mongo: MongoBench, peer: Peer, collection: str) -> float:
    """Seconds from a signal's write to the last event of a snapshot of the collection."""
    asked_ms = time.time() * 1000
    _ask(mongo, collection)
    return (peer.counted(f"peer.bench.{collection}").last_ms - asked_ms) / 1000


def _ask(mongo: MongoBench, collection: str) -> None:
    data = {"data-collections": [f"bench.{collection}"], "type": "incremental"}
    with mongo.server.connect() as client:
        client["bench"]["signals"].insert_one({"type": "execute-snapshot", "data": data})
