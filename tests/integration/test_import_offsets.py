"""`tidemark import-offsets` and the jobs that begin with what it made, on MongoDB and SQL Server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from adapters.source.debezium.offsets import StoredOffset
from adapters.sqlserver.commands.debezium_offset import state_of
from adapters.storage.directory import LocalStorage
from adapters.storage.state_files import seal, state_name
from engine.config import parse
from engine.job.saved.state_document import to_json
from engine.model import CollectionId
from tests import driven_sqlserver
from tests.integration import test_mongodb_job
from tests.integration.test_command_signal import configured
from tests.unit.adapters.cli.test_status import invoke

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def inserted(job: Any, collection: str) -> list[dict[str, Any]]:
    return [
        event["value"] for event in job.events(collection) if event["value"] and event["value"]["op"] == "c"
    ]


def test_a_job_on_mongodb_goes_on_behind_the_token(mongodb, tmp_path: Path, spark: SparkSession):
    with mongodb.connect() as client:
        test_mongodb_job.fill(client, 3)
        collection = client["inventory"]["t"]
        with collection.watch() as stream:
            collection.insert_one({"_id": "sent"})
            token = stream.next()["_id"]["_data"]
        collection.insert_one({"_id": "next"})
        left = [{"incremental_snapshot_collections_id": "inventory.t"}]
        offset = {
            "sec": 1,
            "ord": 1,
            "resume_token": token,
            "incremental_snapshot_collections": orjson.dumps(left).decode(),
        }
        file = tmp_path / "offsets"
        key = orjson.dumps(["c", {"rs": client.admin.command("hello")["setName"], "server_id": "tm"}])
        file.write_bytes(key + b"\t" + orjson.dumps(offset))
        config = configured(test_mongodb_job.properties(mongodb, tmp_path), tmp_path)

        result = invoke("import-offsets", config, file)

        assert result.exit_code == 0, result.output
        with test_mongodb_job.driven(mongodb, tmp_path, spark) as job:
            job.until_answered("finished")

            assert [orjson.loads(value["after"])["_id"] for value in inserted(job, "t")] == ["next"]
            reads = [event for event in job.events("t") if event["value"]["op"] == "r"]
            assert len(reads) in {4, 5}  # "next" may be superseded by its insert


def test_a_job_on_sql_server_sends_the_last_commit_again(
    sqlserver, shop, tmp_path: Path, spark: SparkSession
):
    for table in ("t", "late"):
        shop.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, v nvarchar(10) NULL)")
    shop.enable_cdc("t")
    for row in (1, 2):
        shop.execute(f"INSERT INTO dbo.t VALUES ({row}, N'sent')")
        shop.capture()
    commit = shop.max_lsn()
    shop.execute("INSERT INTO dbo.t VALUES (3, N'next')")
    shop.capture()
    shop.enable_cdc("late")
    offset = {"commit_lsn": commit, "change_lsn": commit, "event_serial_no": 1}
    stored = [StoredOffset({"server": "tm", "database": shop.name}, offset)]
    settings = parse(driven_sqlserver.properties(sqlserver, tmp_path))

    state = state_of(settings, stored, lambda _settings: sqlserver.reach)

    assert [entry.collection for entry in state.incomplete] == [CollectionId((shop.name, "dbo", "late"))]
    LocalStorage(tmp_path / "state").create(state_name(0), seal(0, to_json(state)))
    with driven_sqlserver.driven_sqlserver(sqlserver, tmp_path, spark) as job:
        job.until_streamed(shop)

        assert [value["after"]["id"] for value in inserted(job, "t")] == [2, 3]
