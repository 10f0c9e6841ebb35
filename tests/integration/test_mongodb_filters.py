"""Filters: of an initial snapshot, and of the change stream."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.test_mongodb_job import driven, fill, signal
from tests.servers.mongodb import MongoServer

pytestmark = pytest.mark.integration


@pytest.mark.thorough
def test_an_initial_snapshot_reads_what_its_filter_leaves(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession
):
    overrides = "snapshot.collection.filter.overrides"
    more = {overrides: "inventory.t", f"{overrides}.inventory.t": '{"n": {"$gte": 1990}}'}
    with mongodb.connect() as client:
        fill(client)
        with driven(mongodb, tmp_path, spark, **{"snapshot.mode": "initial", **more}) as job:
            job.until(lambda: not job.job.state.snapshot.tables)
            client["inventory"]["t"].insert_one({"_id": "new", "n": 0})
            job.until(lambda: any(event["value"]["op"] == "c" for event in job.events("t")))

        reads = [event["key"]["id"] for event in job.events("t") if event["value"]["op"] == "r"]
        assert sorted(reads) == [str(n) for n in range(1990, 2000)]


def test_a_pipeline_leaves_events_out_and_lets_signals_and_drops_pass(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession
):
    stages = '[{"$match": {"fullDocument.kept": true}}]'
    with mongodb.connect() as client:
        fill(client, 5)
        with driven(mongodb, tmp_path, spark, **{"cursor.pipeline": stages}) as job:
            client["inventory"]["t"].insert_one({"_id": "left out"})
            client["inventory"]["t"].insert_one({"_id": "kept", "kept": True})
            signal(client, "inventory.t")
            job.until_answered("finished")
            client["inventory"]["marks"].insert_one({"_id": "end", "kept": True})
            job.until_seen("end")

        changes = [event["key"]["id"] for event in job.events("t") if event["value"]["op"] == "c"]
        reads = [event["key"]["id"] for event in job.events("t") if event["value"]["op"] == "r"]
        assert changes == ['"kept"']
        assert len(reads) == 7
