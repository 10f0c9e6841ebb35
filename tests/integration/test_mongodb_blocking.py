"""Blocking snapshots on a real replica set: the cases of Debezium's BlockingSnapshotIT by name, and ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.sql import SparkSession

from adapters.source.signals import stop_watch
from tests.integration.test_mongodb_job import Driven, driven, replayed, signal, stands
from tests.servers.mongodb import MongoSet

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SMALL = {"incremental__snapshot__chunk__size": "50", "tidemark__window__max__chunks": "2"}
ROWS = 500


@contextmanager
def job(server: MongoSet, directory: Path, spark: SparkSession, **more: str) -> Iterator[Driven]:
    (directory / "signals").touch()
    by_file = {"signal__enabled__channels": "source,file", "signal__file": str(directory / "signals")}
    with driven(server, directory, spark, **by_file, **SMALL, **more) as one:
        yield one


def fill(client: Any, *names: str, **more: Any) -> None:
    for name in names:
        client["inventory"].create_collection(name, **more)
        client["inventory"][name].insert_many([{"_id": n, "v": "old"} for n in range(ROWS)])


def ops(one: Driven, name: str) -> list[str]:
    return [event["value"]["op"] for event in one.events(name)]


def until_reading(one: Driven) -> None:
    tables = lambda: one.job.state.snapshot.tables  # noqa: E731
    one.until(lambda: any(t.blocking and t.progress and t.progress.rows for t in tables()))


def until_same(one: Driven, client: Any, *names: str) -> None:
    client["inventory"]["marks"].insert_one({"_id": "end"})
    one.until_seen("end")
    for name in names:
        assert replayed(one.events(name)) == stands(client, name)


def test_execute_blocking_snapshot_while_streaming(mongodb, tmp_path, spark):
    """Whatever is written while collections are read comes after all their documents."""
    with mongodb.connect() as client, job(mongodb, tmp_path, spark) as one:
        fill(client, "a", "b")
        signal(client, "inventory.a", "inventory.b", type="blocking")
        until_reading(one)
        before = len(ops(one, "b")) - ops(one, "b").count("r")
        client["inventory"]["a"].update_many({"_id": {"$mod": [3, 0]}}, {"$set": {"v": "new"}})
        client["inventory"]["b"].delete_many({"_id": {"$mod": [7, 0]}})
        client["inventory"]["b"].insert_many([{"_id": n, "v": "new"} for n in range(ROWS, ROWS + 50)])
        one.until_answered("finished", 2)
        until_same(one, client, "a", "b")

        for name in ("a", "b"):
            # The inserts that filled it were streamed before.
            assert ops(one, name)[before : before + ROWS] == ["r"] * ROWS
            assert "r" not in ops(one, name)[before + ROWS :]
        marks = [e["value"]["source"]["snapshot"] for e in one.events("a") if e["value"]["op"] == "r"]
        assert set(marks) <= {"true", "first", "last", "first_in_data_collection", "last_in_data_collection"}


def test_execute_blocking_snapshot_with_additional_condition(mongodb, tmp_path, spark):
    with mongodb.connect() as client, job(mongodb, tmp_path, spark) as one:
        fill(client, "a")
        chosen = {"data-collection": "inventory.a", "filter": '{"_id": {"$lt": 120}}'}
        signal(client, "inventory.a", type="blocking", **{"additional-conditions": [chosen]})
        one.until_answered("finished")

        assert ops(one, "a").count("r") == 120


def test_a_stop_ends_it_and_the_stream_goes_on(mongodb, tmp_path, spark):
    with mongodb.connect() as client, job(mongodb, tmp_path, spark) as one:
        fill(client, "a")
        signal(client, "inventory.a", type="blocking")
        until_reading(one)
        client["inventory"]["a"].update_one({"_id": 1}, {"$set": {"v": "new"}})
        line = orjson.dumps({"id": "stop", "type": "stop-snapshot", "data": {"type": "blocking"}})
        with (tmp_path / "signals").open("ab") as signals:
            signals.write(line + b"\n")
        one.until_answered("stopped")
        until_same(one, client)

        assert ops(one, "a").count("r") < ROWS
        assert ops(one, "a")[-1] == "u"


def stop_by_document(client: Any, *names: str) -> None:
    named = {"data-collections": [f"inventory.{name}" for name in names]} if names else {}
    client["inventory"]["signals"].insert_one(
        {"_id": "stop", "type": "stop-snapshot", "data": {"type": "blocking", **named}}
    )


def test_a_stop_of_one_collection_lets_the_others_be_read_behind_it(mongodb, tmp_path, spark, monkeypatch):
    """The stream waits, and still brings a stop from the signal collection."""
    monkeypatch.setattr(stop_watch, "_EVERY_S", 0.05)
    with mongodb.connect() as client, job(mongodb, tmp_path, spark) as one:
        fill(client, "a", "b")
        # So many that they are still being read when the stop comes.
        client["inventory"]["a"].insert_many([{"_id": n, "v": "old"} for n in range(ROWS, 20 * ROWS)])
        signal(client, "inventory.a", "inventory.b", type="blocking")
        until_reading(one)
        client["inventory"]["b"].update_many({"_id": {"$mod": [3, 0]}}, {"$set": {"v": "new"}})
        client["inventory"]["b"].delete_many({"_id": {"$mod": [7, 0]}})
        stop_by_document(client, "a")
        one.until_answered("stopped")
        one.until_answered("finished")
        until_same(one, client, "b")


@pytest.mark.thorough
def test_the_rest_is_read_after_a_crash(mongodb, tmp_path, spark):
    with mongodb.connect() as client:
        with job(mongodb, tmp_path, spark) as one:
            fill(client, "a", "b")
            signal(client, "inventory.a", "inventory.b", type="blocking")
            until_reading(one)
            client["inventory"]["a"].update_many({"_id": {"$mod": [3, 0]}}, {"$set": {"v": "new"}})
            client["inventory"]["b"].delete_many({"_id": {"$mod": [7, 0]}})
        with job(mongodb, tmp_path, spark) as one:
            one.until_answered("finished", 2)
            until_same(one, client, "a", "b")


def test_capped_collections_are_read_beside_the_stream(mongodb, tmp_path, spark):
    with mongodb.connect() as client, job(mongodb, tmp_path, spark) as one:
        fill(client, "a")
        fill(client, "capped", capped=True, size=1 << 20)
        signal(client, "inventory.capped", "inventory.a", type="blocking")
        one.until_answered("finished", 2)
        until_same(one, client, "a", "capped")


def test_the_stream_waits_for_no_further_window_of_a_collection_that_is_capped(
    mongodb, tmp_path, spark, caplog
):
    with (
        caplog.at_level(logging.INFO, "adapters"),
        mongodb.connect() as client,
        job(mongodb, tmp_path, spark) as one,
    ):
        fill(client, "capped", capped=True, size=1 << 20)
        signal(client, "inventory.capped", type="blocking")
        one.until_answered("finished")
        until_same(one, client, "capped")

    assert len([said for said in caplog.messages if "for a blocking snapshot" in said]) == 1
