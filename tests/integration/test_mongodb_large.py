"""Events over the server's 16 MB come with less, are left out, or end the job; transactions may be larger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.sql import SparkSession

from engine.errors import ConfigError
from tests.integration.test_mongodb_job import driven, fill, replayed, signal, stands
from tests.servers.mongodb import MongoServer

pytestmark = pytest.mark.integration

NINE_MB = 9 << 20
LARGE_ID = "k" * (1 << 20)
"""With a document of 13 MB it stands in the event three times, and there is nothing to leave out."""


@pytest.mark.parametrize(
    "mode",
    [
        "change_streams",
        "change_streams_update_full",
        "change_streams_with_pre_image",
        "change_streams_update_full_with_pre_image",
    ],
)
def test_a_document_whose_event_was_stripped_in_a_window_is_sent(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession, mode: str
):
    with mongodb.connect() as client:
        database = client["inventory"]
        database.create_collection("signals")
        database.create_collection("t", changeStreamPreAndPostImages={"enabled": True})
        database["t"].insert_one({"_id": 1, "a": "x" * NINE_MB})
        with driven(mongodb, tmp_path, spark, **{"capture.mode": mode}) as job:
            signal(client, "inventory.t")
            job.until(lambda: bool(job.job.state.snapshot.tables))
            with job.log_held():
                job.read_window()
                # In two events: each has room for one field, and the document for neither.
                database["t"].update_one({"_id": 1}, {"$set": {"a": "y" * NINE_MB, "n": 1}})
                database["t"].update_one({"_id": 1}, {"$set": {"n": 2}})
            job.until_answered("finished")
            job.until(lambda: not job.job.state.snapshot.tables)

        assert replayed(job.events("t")) == stands(client, "t")


def test_an_event_that_can_not_be_had_ends_the_job_which_names_the_ways_on(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession
):
    with mongodb.connect() as client:
        fill(client, 1)
        with driven(mongodb, tmp_path, spark) as job:
            client["inventory"]["t"].insert_one({"_id": LARGE_ID, "x": "y" * (13 << 20)})
            with pytest.raises(ConfigError, match="over 16 MB") as told:
                job.until(lambda: False)

    assert "set 'cursor.oversize.handling.mode' to 'skip' or 'split'" in told.value.hint


def test_it_is_left_out_told_of_and_kept_by_name_and_a_snapshot_sends_the_document(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession, caplog: pytest.LogCaptureFixture
):
    skip = {"cursor.oversize.handling.mode": "skip"}
    with mongodb.connect() as client:
        fill(client, 1)
        with driven(mongodb, tmp_path, spark, **skip) as job:
            client["inventory"]["t"].insert_one({"_id": "before"})
            client["inventory"]["t"].insert_one({"_id": LARGE_ID, "x": "y" * (13 << 20)})
            client["inventory"]["t"].insert_one({"_id": "behind", "v": 1})
            client["inventory"]["t"].update_one({"_id": "behind"}, {"$set": {"v": 2}})
            client["inventory"]["marks"].insert_one({"_id": "end"})
            job.until_seen("end")
            (incomplete,) = job.job.state.incomplete
            streamed = replayed(job.events("t"))
            kept = letters(tmp_path)
            signal(client, "inventory.t")
            job.until_answered("finished")
            job.until(lambda: not job.job.state.incomplete)

        assert set(replayed(job.events("t")).values()) == set(stands(client, "t").values())
    assert streamed == {'"before"': '{"_id": "before"}', '"behind"': '{"_id": "behind","v": 2}'}
    assert [(letter["operation"], letter["id"]) for letter in kept] == [("insert", f'"{LARGE_ID}"')]
    assert "16 MB" in incomplete.why
    assert "inventory.t lacks changes since Timestamp" in caplog.text
    assert LARGE_ID[:100] not in caplog.text
    assert not letters(tmp_path)


def letters(directory: Path) -> list[Any]:
    """The dead letters."""
    files = sorted((directory / "state").rglob("inventory.t.turn-*.jsonl"))
    return [orjson.loads(line) for path in files for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("kept", ["committed", "aborted"])
def test_a_transaction_of_several_entries_of_the_log_comes_whole_over_restarts(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession, kept: str
):
    # Each of its entries holds less than 16 MB.
    bounds = {"tidemark.span.max.rows": "2", "tidemark.span.max.bytes": "12m"}
    with mongodb.connect() as client:
        fill(client, 5)
        with client.start_session() as session:
            session.start_transaction()
            for n in range(4):
                large = {"_id": f"large{n}", "x": "y" * NINE_MB}
                client["inventory"]["t"].insert_one(large, session=session)
            client["inventory"]["t"].update_one({"_id": 1}, {"$set": {"n": -1}}, session=session)
            with driven(mongodb, tmp_path, spark, **bounds) as job:
                client["inventory"]["marks"].insert_one({"_id": "begin"})
                job.until_seen("begin")
                if kept == "committed":
                    session.commit_transaction()
                    job.until(lambda: bool(job.events("t")))
                else:
                    session.abort_transaction()
                client["inventory"]["marks"].insert_one({"_id": "end"})
        for _start in range(2):
            with driven(mongodb, tmp_path, spark, **bounds) as job:
                job.turn(3)
        with driven(mongodb, tmp_path, spark, **bounds) as job:
            job.until_seen("end")
        events = [event["key"]["id"] for event in job.events("t")]

    expected = [*(f'"large{n}"' for n in range(4)), "1"] if kept == "committed" else []
    assert events == expected
