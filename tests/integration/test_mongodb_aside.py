"""One collection of which an event can't be decoded is set aside, with its events; the rest goes on."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bson
import orjson
import pytest
from pyspark.sql import SparkSession

from adapters.mongodb.documents import extended_json
from adapters.mongodb.documents.bson_walk import Kind
from engine.errors import ConfigError, PositionLost
from tests.integration.test_mongodb_job import Driven, driven, replayed, signal, stands
from tests.raw_ids import document, int32, text
from tests.servers.mongodb import MongoServer

pytestmark = pytest.mark.integration

SECRET = b"the value of a row"
BAD = (Kind.SYMBOL, text(SECRET))


class Unknown(Exception):
    """What a type that nobody can write raises."""


def unknown(*_value: object) -> str:
    raise Unknown(SECRET)


@pytest.fixture
def client(mongodb: MongoServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Collections `t` and `u`; the job's own process does not know symbols, those of its tasks do."""
    with mongodb.connect() as client:
        for name in ("signals", "t", "u"):
            client["inventory"].create_collection(name)
        writers = list(extended_json._WRITERS)
        writers[Kind.SYMBOL] = unknown
        monkeypatch.setattr(extended_json, "_WRITERS", writers)
        yield client


def letters(directory: Path) -> list[dict[str, Any]]:
    files = sorted((directory / "state" / "dead-letters").rglob("*.jsonl"))
    return [orjson.loads(line) for file in files for line in file.read_bytes().splitlines()]


def fields(letter: dict[str, Any]) -> tuple[str, Any]:
    """The operation of a kept event and the `_id` of its document."""
    event = bson.decode(base64.b64decode(letter["message"]))
    assert letter["operation"] == event["operationType"]
    at = event["clusterTime"]
    assert letter["position"] == f"Timestamp({at.time}, {at.inc})"
    return letter["operation"], event["documentKey"]["_id"]


def mark(client: Any, job: Driven, name: str) -> None:
    client["inventory"]["marks"].insert_one({"_id": name})
    job.until_seen(name)


def held(job: Driven, name: str) -> dict[str, str]:
    return replayed(job.events(name))


@pytest.mark.parametrize("parts", ["one", "many"])
def test_one_bad_collection_is_set_aside_and_taken_up_by_a_snapshot(
    mongodb: MongoServer,
    client: Any,
    tmp_path: Path,
    spark: SparkSession,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    parts: str,
):
    t, u = client["inventory"]["t"], client["inventory"]["u"]
    with driven(mongodb, tmp_path, spark) as job:
        if parts == "many":
            encode_in_parts(job, monkeypatch)
        mark(client, job, "begin")
        with job.log_held():
            t.insert_one({"_id": 1})
            u.insert_one({"_id": 1})
            t.insert_one(document(int32(2), x=BAD))
            t.update_one({"_id": 1}, {"$set": {"n": 1}})
            u.insert_one({"_id": 2})
        mark(client, job, "bad")

        (found,) = job.job.state.incomplete
        assert (str(found.collection), found.cause.value, found.kept) == ("inventory.t", "undecodable", 3)
        assert job.events("t") == []
        assert held(job, "u") == stands(client, "u")
        assert [fields(letter) for letter in letters(tmp_path)] == [
            ("insert", 1),
            ("insert", 2),
            ("update", 1),
        ]
        assert caplog.text.count("inventory.t is set aside since Timestamp(") == 1
    caplog.clear()
    with driven(mongodb, tmp_path, spark) as job:
        t.delete_one({"_id": 1})
        t.insert_one({"_id": 3})
        mark(client, job, "again")

        assert "inventory.t is set aside since Timestamp(" in caplog.text
        assert SECRET.decode() not in caplog.text
        assert len(letters(tmp_path)) == job.job.state.incomplete[0].kept == 5
        assert job.events("t") == []

        signal(client, "inventory.t")
        job.until_answered("finished")
        t.insert_one({"_id": 4})
        mark(client, job, "end")

        assert job.job.state.incomplete == ()
        assert letters(tmp_path) == []
        monkeypatch.undo()
        assert held(job, "t") == stands(client, "t")
        assert held(job, "u") == stands(client, "u")


def encode_in_parts(job: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every event be a part of its own, as those of a large span are that go to the executors."""
    monkeypatch.setattr("adapters.mongodb.events.span_encoder._PART_ROWS", 1)
    source: Any = job.job._parts.source
    encoder = source._spans._encoder
    encoder._local_rows = 0
    encoder._executors = Here()


class Here:
    """Executors that are the process itself."""

    @staticmethod
    def map(task: Any, items: list[Any]) -> list[Any]:
        return [task(item) for item in items]


def test_a_bad_event_in_a_window_ends_that_collection_s_snapshot_alone(
    mongodb: MongoServer, client: Any, tmp_path: Path, spark: SparkSession
):
    for name in "tu":
        client["inventory"][name].insert_many([{"_id": n} for n in range(10)])
    with driven(mongodb, tmp_path, spark) as job:
        signal(client, "inventory.t", "inventory.u")
        job.until(lambda: bool(job.job.state.snapshot.tables))
        with job.log_held():
            job.read_window()
            client["inventory"]["t"].insert_one(document(int32(10), x=BAD))
            client["inventory"]["u"].insert_one({"_id": 10})
        job.until_answered("finished")
        job.until_answered("failed")
        mark(client, job, "end")

        assert [str(entry.collection) for entry in job.job.state.incomplete] == ["inventory.t"]
        assert held(job, "u") == stands(client, "u")


def test_a_drop_of_a_collection_that_is_set_aside_is_told(
    mongodb: MongoServer, client: Any, tmp_path: Path, spark: SparkSession, caplog: pytest.LogCaptureFixture
):
    with driven(mongodb, tmp_path, spark) as job:
        client["inventory"]["t"].insert_one(document(int32(2), x=BAD))
        mark(client, job, "bad")
        client["inventory"]["t"].drop()
        mark(client, job, "end")

    assert "inventory.t was dropped" in caplog.text


def test_what_can_be_set_aside_stops_the_job_where_that_is_wanted(
    mongodb: MongoServer, client: Any, tmp_path: Path, spark: SparkSession
):
    with driven(mongodb, tmp_path, spark, tidemark__table__errors="stop") as job:
        client["inventory"]["t"].insert_one(document(int32(2), x=BAD))
        with pytest.raises(PositionLost, match=r"inventory\.t.*tidemark\.table\.errors"):
            mark(client, job, "bad")


def test_a_signal_collection_is_never_set_aside(
    mongodb: MongoServer, client: Any, tmp_path: Path, spark: SparkSession
):
    with driven(mongodb, tmp_path, spark) as job:
        client["inventory"]["signals"].insert_one(document(int32(2), x=BAD))
        with pytest.raises(
            ConfigError, match=r"the signal collection .inventory\.signals. can.t be streamed"
        ):
            mark(client, job, "bad")
