"""Capped collections, which the server reads at no chosen time: no row contains what the log then tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration.test_mongodb_job import Driven, driven, replayed, signal, stands
from tests.servers.mongodb import MongoServer

pytestmark = pytest.mark.integration


def told_of(job: Driven, name: str) -> dict[str, list[tuple[str, str]]]:
    """What consumers are told of each document, in order: operations, and the documents."""
    found: dict[str, list[tuple[str, str]]] = {}
    for event in job.events(name):
        told = (event["value"]["op"], event["value"]["after"])
        found.setdefault(event["key"]["id"], []).append(told)
    return found


@pytest.mark.parametrize("chunks", [{}, {"tidemark.window.max.chunks": "1"}], ids=["whole", "in chunks"])
def test_an_initial_snapshot_reads_a_capped_collection_beside_the_log(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession, chunks: dict[str, str]
):
    more = {"snapshot.mode": "initial", "incremental.snapshot.chunk.size": "100", **chunks}
    with mongodb.connect() as client:
        database = client["inventory"]
        database.create_collection("signals")
        database.create_collection("capped", capped=True, size=1 << 24)
        # The first by name: what waits is not what comes last anyway.
        database["capped"].insert_many([{"_id": n, "n": 0} for n in range(300)])
        database["t"].insert_many([{"_id": n} for n in range(100)])
        with driven(mongodb, tmp_path, spark, **more) as job:
            database["capped"].insert_many([{"_id": n, "n": 0} for n in range(300, 350)])
            database["capped"].update_many({"_id": {"$lt": 200}}, {"$set": {"n": 1}})
            job.until(lambda: not job.job.state.snapshot.tables)
            database["marks"].insert_one({"_id": "end"})
            job.until_seen("end")
        told = told_of(job, "capped")

        assert replayed(job.events("capped")) == stands(client, "capped")
        assert replayed(job.events("t")) == stands(client, "t")
    # A row read may come behind a change that it shows, never before it.
    assert {told[str(n)][0][0] for n in range(300, 350)} == {"c"}
    updated = [told[str(n)] for n in range(200)]
    assert not [told for told in updated if told[0][0] == "r" and '"n": 1' in told[0][1]]
    assert {[op for op, _after in told].count("u") for told in updated} == {1}
    assert {op for n in range(200, 300) for op, _after in told[str(n)]} == {"r"}
    assert {str(answer.outcome) for answer in job.answers} == {"finished"}


def test_an_initial_snapshot_without_a_log_reads_a_capped_collection_too(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession
):
    with mongodb.connect() as client:
        client["inventory"].create_collection("capped", capped=True, size=1 << 20)
        client["inventory"]["capped"].insert_many([{"_id": n} for n in range(30)])
        with driven(mongodb, tmp_path, spark, **{"snapshot.mode": "initial_only"}) as job:
            job.until(lambda: not job.job.state.snapshot.tables)

        assert replayed(job.events("capped")) == stands(client, "capped")


def test_a_capped_collection_that_lets_documents_go_tells_of_them(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession
):
    with mongodb.connect() as client:
        database: Any = client["inventory"]
        database.create_collection("signals")
        database.create_collection("capped", capped=True, size=1 << 20, max=100)
        database["capped"].insert_many([{"_id": n} for n in range(100)])
        with driven(mongodb, tmp_path, spark) as job:
            signal(client, "inventory.capped")
            job.until(lambda: bool(job.job.state.snapshot.tables))
            with job.log_held():
                job.read_window()
                database["capped"].insert_many([{"_id": n} for n in range(100, 160)])
            job.until(lambda: not job.job.state.snapshot.tables)
            database["marks"].insert_one({"_id": "end"})
            job.until_seen("end")

        assert replayed(job.events("capped")) == stands(client, "capped")
