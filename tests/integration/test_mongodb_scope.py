"""A job whose `capture.scope` or `capture.target` changes: it goes on, or says why it can't."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import ConfigError
from tests.integration.test_mongodb_job import Driven, driven
from tests.servers.mongodb import MongoServer

pytestmark = pytest.mark.integration

DEPLOYMENT = {"capture.scope": "deployment"}
INVENTORY = {"capture.scope": "database", "capture.target": "inventory"}
OTHER = {"capture.scope": "database", "capture.target": "other"}
MARKS = {"capture.scope": "collection", "capture.target": "inventory.marks"}


@pytest.fixture(autouse=True)
def _no_other(mongodb: MongoServer):
    """No database but `inventory`, which every test empties."""
    yield
    with mongodb.connect() as client:
        client.drop_database("other")


def until_saved(job: Driven) -> None:
    """Turn until the newest position is saved."""
    job.until(lambda: job.job._checkpoint.state.position == job.job.state.position)


@pytest.mark.parametrize(
    ("before", "now", "more"),
    [
        (DEPLOYMENT, INVENTORY, {"snapshot.mode": "when_needed"}),
        (DEPLOYMENT, MARKS, {"tidemark.recovery": "repair"}),
        (OTHER, INVENTORY, {}),
    ],
)
def test_a_scope_without_the_event_streamed_last_is_refused(
    mongodb: MongoServer,
    tmp_path: Path,
    spark: SparkSession,
    before: dict[str, str],
    now: dict[str, str],
    more: dict[str, str],
):
    with mongodb.connect() as client:
        with driven(mongodb, tmp_path, spark, **before, **more) as job:
            job.turn()
            client["other"]["t"].insert_one({"_id": 1})
            job.until(lambda: bool(job.events("t")))
            until_saved(job)
        with (
            pytest.raises(ConfigError, match="the event streamed last is not in it") as told,
            driven(mongodb, tmp_path, spark, **now, **more) as job,
        ):
            job.turn()
        with driven(mongodb, tmp_path, spark, **before, **more) as job:
            client["other"]["t"].insert_one({"_id": 2})
            job.until(lambda: len(job.events("t")) == 2)

    assert f"'capture.scope={before['capture.scope']}'" in str(told.value)
    assert f"can't be continued with 'capture.scope={now['capture.scope']}'" in str(told.value)


@pytest.mark.parametrize(
    ("before", "now"),
    [(INVENTORY, DEPLOYMENT), (MARKS, INVENTORY), (DEPLOYMENT, INVENTORY)],
)
def test_a_scope_with_the_event_streamed_last_goes_on(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession, before: dict[str, str], now: dict[str, str]
):
    with mongodb.connect() as client:
        with driven(mongodb, tmp_path, spark, **before) as job:
            job.turn()
            client["inventory"]["marks"].insert_one({"_id": "begin"})
            job.until_seen("begin")
            until_saved(job)
        for mark in ("middle", "end"):
            client["inventory"]["marks"].insert_one({"_id": mark})
            with driven(mongodb, tmp_path, spark, **now) as job:
                job.until_seen(mark)
                until_saved(job)

    assert [event["key"]["id"] for event in job.events("marks")] == ['"begin"', '"middle"', '"end"']
