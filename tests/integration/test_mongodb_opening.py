"""A window of MongoDB opens while the stream goes on. The tests decide when its thread goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.test_mongodb_job import Driven, driven, fill, replayed, signal, stands

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fix_gates import Gates
    from tests.servers.mongodb import MongoServer

pytestmark = pytest.mark.integration


def streamed(job: Driven, client: Any, mark: str) -> None:
    """Turn until everything written so far is streamed."""
    client["inventory"]["marks"].insert_one({"_id": mark})
    job.until_seen(mark)


def until_opening(job: Driven, client: Any, gates: Gates) -> None:
    """Turn until a window is about to ask for its time."""
    signal(client, "inventory.t")
    job.until(lambda: gates.asked)


def reads(job: Driven) -> list[int]:
    """The keys of t's READs."""
    return sorted(int(event["key"]["id"]) for event in job.events("t") if event["value"]["op"] == "r")


@pytest.mark.parametrize("strategy", ["visibility", "insert_insert"])
def test_what_is_streamed_while_a_window_opens_is_in_its_rows(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession, gates: Gates, strategy: str
):
    marks = {"incremental__snapshot__watermarking__strategy": strategy}
    with mongodb.connect() as client, driven(mongodb, tmp_path, spark, **marks) as job:
        fill(client, 9)
        rows = client["inventory"]["t"]
        until_opening(job, client, gates)
        rows.update_one({"_id": 1}, {"$set": {"v": "before"}})
        rows.delete_one({"_id": 3})
        streamed(job, client, "before")
        gates.before.set()
        gates.asked[0].result(60)
        # The time is asked for, and the job has not noticed yet.
        rows.update_many({"_id": {"$in": [1, 4]}}, {"$set": {"v": "after"}})
        rows.delete_one({"_id": 5})
        streamed(job, client, "after")
        opening = job.job._windows.in_progress.opened[0]
        unopened = (opening.is_open, reads(job))
        gates.after.set()
        job.until_answered("finished")
        held, found = replayed(job.events("t")), stands(client, "t")

    assert unopened == (False, [])
    assert reads(job) == [0, 1, 2, 4, 6, 7, 8]
    assert held == found


def test_a_collection_that_is_dropped_while_its_window_opens_is_measured_again(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession, gates: Gates, caplog
):
    with mongodb.connect() as client, driven(mongodb, tmp_path, spark) as job:
        fill(client, 9)
        until_opening(job, client, gates)
        gates.before.set()
        gates.asked[0].result(60)
        client["inventory"].drop_collection("t")
        client["inventory"]["t"].insert_many([{"_id": n} for n in range(3)])
        streamed(job, client, "dropped")
        gates.after.set()
        job.until_answered("finished")
        again, held, found = len(gates.asked), reads(job), stands(client, "t")

    assert again == 2
    assert "it was dropped or renamed" in caplog.text
    assert held == [0, 1, 2]
    assert len(found) == 3


def test_a_stopped_snapshot_gives_up_the_window_that_opens(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession, gates: Gates
):
    with mongodb.connect() as client, driven(mongodb, tmp_path, spark) as job:
        fill(client, 9)
        until_opening(job, client, gates)
        client["inventory"]["signals"].insert_one({"type": "stop-snapshot", "data": {}})
        job.until_answered("stopped")
        gates.before.set()
        gates.after.set()
        signal(client, "inventory.t")
        job.until_answered("finished")

    assert reads(job) == list(range(9))
