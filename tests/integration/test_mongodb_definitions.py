"""Collections that are dropped, made again and renamed while a snapshot before the log waits for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration.test_mongodb_job import driven, fill, replayed, stands
from tests.servers.mongodb import MongoServer

pytestmark = pytest.mark.integration


def make_again(database: Any) -> None:
    database["t"].drop()
    database["t"].insert_many([{"_id": n, "again": True} for n in range(5)])


def put_another_in_its_place(database: Any) -> None:
    database["other"].insert_many([{"_id": n, "other": True} for n in range(7)])
    database["other"].rename("t", dropTarget=True)


@pytest.mark.parametrize("change", [make_again, put_another_in_its_place])
def test_a_collection_that_is_younger_than_the_snapshot_is_read_beside_the_log(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession, change: Any
):
    with mongodb.connect() as client:
        fill(client, 50)
        client["inventory"]["u"].insert_one({"_id": 1})
        with driven(mongodb, tmp_path, spark, **{"snapshot.mode": "initial"}) as job:
            change(client["inventory"])
            job.until(lambda: not job.job.state.snapshot.tables)
            client["inventory"]["marks"].insert_one({"_id": "end"})
            job.until_seen("end")

        assert replayed(job.events("t")) == stands(client, "t")
        assert replayed(job.events("u")) == stands(client, "u")
