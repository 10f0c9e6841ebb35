"""What the server keeps for a while only: images of documents, and the states that snapshots are read of."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration.test_mongodb_job import driven, fill, history_window, replayed, stands, writing
from tests.integration.test_mongodb_liveness import SOON
from tests.servers.mongodb import MongoServer

pytestmark = pytest.mark.integration

IMAGES = {"capture.mode": "change_streams_update_full_with_pre_image"}


@pytest.fixture
def forgetful() -> Iterator[MongoServer]:
    """A server that looks every second for images that are too old."""
    with MongoServer(settings=["expiredChangeStreamPreImageRemovalJobSleepSecs=1"]) as server:
        yield server


def test_changes_whose_pre_images_have_expired_come_without_them(
    forgetful: MongoServer, tmp_path: Path, spark: SparkSession
):
    with forgetful.connect() as client:
        database = client["inventory"]
        database.create_collection("t", changeStreamPreAndPostImages={"enabled": True})
        database["t"].insert_many([{"_id": n} for n in range(3)])
        with driven(forgetful, tmp_path, spark, **IMAGES) as job:
            database["t"].update_one({"_id": 0}, {"$set": {"n": 0}})
            database["marks"].insert_one({"_id": "begin"})
            job.until_seen("begin")
        database["t"].update_one({"_id": 1}, {"$set": {"n": 1}})
        database["t"].delete_one({"_id": 2})
        expire(client)
        with driven(forgetful, tmp_path, spark, **IMAGES) as job:
            database["t"].update_one({"_id": 0}, {"$set": {"n": 2}})
            database["marks"].insert_one({"_id": "end"})
            job.until_seen("end")
        told = [
            (event["key"]["id"], event["value"]["op"], event["value"]["before"]) for event in job.events("t")
        ]

    assert told == [
        ("0", "u", '{"_id": 0}'),
        ("1", "u", None),
        ("2", "d", None),
        ("0", "u", '{"_id": 0,"n": 0}'),
    ]


def expire(client: Any) -> None:
    """Wait until the server has removed all images, and have it keep later ones again."""

    def keep(seconds: Any) -> None:
        options = {"preAndPostImages": {"expireAfterSeconds": seconds}}
        client.admin.command({"setClusterParameter": {"changeStreamOptions": options}})

    keep(1)
    images, until = client["config"]["system.preimages"], time.monotonic() + 60
    while images.count_documents({}):
        assert time.monotonic() < until, "the server keeps its images"
        time.sleep(0.1)
    keep("off")


@pytest.mark.thorough
def test_an_initial_snapshot_that_outlives_what_the_server_keeps_goes_on_in_windows(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession, caplog: pytest.LogCaptureFixture
):
    # A second in the place of 300.
    more = {"incremental.snapshot.chunk.size": "500", "tidemark.window.max.chunks": "1", **SOON}
    with mongodb.connect() as client:
        fill(client, 3000)
        with history_window(client, seconds=1):
            with (
                driven(mongodb, tmp_path, spark, **more, **{"snapshot.mode": "initial"}) as job,
                writing(mongodb, 8),
            ):
                late_before_the_log(job)
                job.until(lambda: not job.job.state.snapshot.tables)
            client["inventory"]["marks"].insert_one({"_id": "end"})
            with driven(mongodb, tmp_path, spark) as job:
                job.until_seen("end")

        assert replayed(job.events("t")) == stands(client, "t")
    assert "the server has dropped the state that was read; the rest is read in windows" in caplog.text


def late_before_the_log(job: Any) -> None:
    """Have windows be read too late that are read as of the beginning of a log that waits."""
    source = job.job._parts.source
    reader, first = source._opening._tools.chunks, source._first
    read = reader.read

    def late(*args: Any, **more: Any) -> Any:
        if first.held is not None:
            time.sleep(2.5)
        return read(*args, **more)

    reader.read = late
