"""`tidemark import-offsets` of what the real Debezium stored of MongoDB: `make import-offsets`."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.bench.peers.jars import SHA256
from tests.integration.check_import_offsets import imported_by
from tests.integration.test_mongodb_job import driven, properties, signal
from tests.java.debezium import running
from tests.servers.mongodb import REPLICA_SET

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.mongodb import MongoServer

pytestmark = [pytest.mark.integration, pytest.mark.slow]
DOCUMENTS = 2000
FIRST, LATEST = SHA256
_TIMEOUT_S = 120.0


def engine_properties(server: MongoServer, version: str) -> dict[str, str]:
    """The connector's properties. The first version names a replica set by its hosts, and modes otherwise."""
    old = version == FIRST
    at = {"mongodb.hosts": f"{REPLICA_SET}/{server.host}:{server.port}"}
    return {
        "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
        **(at if old else {"mongodb.connection.string": server.uri}),
        "topic.prefix": "tm",
        "snapshot.mode": "never" if old else "no_data",
        "collection.include.list": "inventory.t,inventory.signals",
        "signal.data.collection": "inventory.signals",
        "incremental.snapshot.chunk.size": "10",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        "tombstones.on.delete": "false",
        "poll.interval.ms": "50",
    }


def until_heard(server: MongoServer, heard: Callable[[], Any]) -> None:
    """Write probes until the engine streams them."""
    deadline, number = time.monotonic() + _TIMEOUT_S, 0
    while not heard():
        assert time.monotonic() < deadline, "Debezium does not stream"
        number -= 1
        with server.connect() as client:
            client["inventory"]["t"].insert_one({"_id": number})
        time.sleep(0.5)


def ids(events: list[Any]) -> list[int]:
    """The `_id`s of events, of either side."""
    keys = [event["key"] if isinstance(event, dict) else json.loads(event.key) for event in events]
    return [int(json.loads(key["id"])) for key in keys]


@pytest.mark.parametrize("version", SHA256)
def test_we_go_on_at_its_token(mongodb: MongoServer, tmp_path: Path, spark: SparkSession, version: str):
    with running(engine_properties(mongodb, version), tmp_path, version) as engine:
        until_heard(mongodb, lambda: engine.sent)
        with mongodb.connect() as client:
            client["inventory"]["t"].insert_many([{"_id": number} for number in range(100)])
        engine.until(lambda sent: 99 in ids(sent))
    with mongodb.connect() as client:
        client["inventory"]["t"].insert_many([{"_id": number} for number in range(100, 200)])

    assert imported_by(properties(mongodb, tmp_path), tmp_path)["snapshots"] == []
    with driven(mongodb, tmp_path, spark) as job:
        job.until(lambda: 199 in ids(job.events("t")))

    theirs = [number for number in ids(engine.sent) if number >= 0]
    mine = [number for number in ids(job.events("t")) if number >= 0]
    repeated = len(set(theirs) & set(mine))
    assert sorted({*theirs, *mine}) == list(range(200))
    assert mine == list(range(100 - repeated, 200))
    assert repeated <= 1


@pytest.mark.parametrize("version", SHA256)
def test_an_incremental_snapshot_in_the_middle_goes_on(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession, version: str
):
    with mongodb.connect() as client:
        client["inventory"]["t"].insert_many([{"_id": number} for number in range(DOCUMENTS)])
    with running(engine_properties(mongodb, version), tmp_path, version) as engine:
        until_heard(mongodb, lambda: engine.sent)
        with mongodb.connect() as client:
            signal(client, "inventory.t")
        engine.until(lambda sent: sum(number >= 0 for number in ids(_of_table(sent))) > 200)
        engine.kill()
    theirs = {number for number in ids(_of_table(engine.sent)) if number >= 0}
    assert len(theirs) < DOCUMENTS

    assert imported_by(properties(mongodb, tmp_path), tmp_path)["snapshots"] == ["inventory.t"]
    with driven(mongodb, tmp_path, spark) as job:
        job.until_answered("finished")

    mine = {number for number in ids(job.events("t")) if number >= 0}
    assert theirs | mine == set(range(DOCUMENTS))


def _of_table(sent: list[Any]) -> list[Any]:
    return [event for event in sent if event.topic.endswith(".t")]
