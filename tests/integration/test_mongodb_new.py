"""Collections that are captured only since the job runs, on a real replica set."""

from __future__ import annotations

import logging

import pytest

from adapters.mongodb.log import arrivals
from tests.integration.test_mongodb_job import driven, replayed, stands

pytestmark = pytest.mark.integration


def test_a_new_collection_is_only_announced(mongodb, tmp_path, spark, caplog, monkeypatch):
    """The change stream has all its documents."""
    monkeypatch.setattr(arrivals, "_EVERY_S", 0.1)
    with mongodb.connect() as client, caplog.at_level(logging.INFO):
        client["inventory"]["a"].insert_one({"_id": 1})
        with driven(mongodb, tmp_path, spark, snapshot__mode="initial") as job:
            job.until(lambda: not job.job.state.snapshot.tables)
            job.turn(3)
            client["inventory"]["b"].insert_many([{"_id": n} for n in range(20)])
            job.until(lambda: "inventory.b was created while it is captured" in caplog.text)
            client["inventory"]["marks"].insert_one({"_id": "end"})
            job.until_seen("end")

            assert replayed(job.events("b")) == stands(client, "b")
            assert [event["value"]["op"] for event in job.events("b")] == ["c"] * 20
            assert [answer.label for answer in job.answers] == ["snapshot.mode"]


NEW = "tidemark-new-inventory.b"
LISTS = {"collection.include.list": r"inventory\.(a|b|signals|marks)"}


def until_new(job, label: str = NEW) -> None:
    job.until(lambda: (label, "finished") in [(answer.id, answer.outcome) for answer in job.answers])


def check(job, client, name: str) -> None:
    client["inventory"]["marks"].insert_one({"_id": "end"})
    job.until_seen("end")
    assert replayed(job.events(name)) == stands(client, name)


def test_one_renamed_into_the_lists_is_read(mongodb, tmp_path, spark, caplog):
    """Its documents are older than its name, so the stream has none of them under it."""
    with mongodb.connect() as client, caplog.at_level(logging.INFO):
        client["inventory"]["a"].insert_one({"_id": 1})
        client["inventory"]["other"].insert_many([{"_id": n} for n in range(20)])
        with driven(mongodb, tmp_path, spark, snapshot__mode="initial", **LISTS) as job:
            job.until(lambda: not job.job.state.snapshot.tables)
            job.turn(3)
            client["inventory"]["other"].rename("b")
            client["inventory"]["b"].insert_one({"_id": 20})
            until_new(job)
            check(job, client, "b")

            assert "was created while it is captured" not in caplog.text
            assert not job.job.state.incomplete
        client["inventory"]["more"].insert_many([{"_id": n} for n in range(20)])
        client["inventory"]["more"].rename("b", dropTarget=True)
        with driven(mongodb, tmp_path, spark, snapshot__mode="initial", **LISTS) as job:
            until_new(job)

            assert not job.job.state.incomplete


def test_one_that_other_lists_capture_is_read(mongodb, tmp_path, spark):
    with mongodb.connect() as client:
        client["inventory"]["a"].insert_one({"_id": 1})
        client["inventory"]["b"].insert_many([{"_id": n} for n in range(20)])
        fewer = {"collection.include.list": r"inventory\.(a|signals|marks)"}
        with driven(mongodb, tmp_path, spark, snapshot__mode="initial", **fewer) as job:
            job.until(lambda: not job.job.state.snapshot.tables)
            check(job, client, "a")
        client["inventory"]["marks"].delete_many({})
        with driven(mongodb, tmp_path, spark, snapshot__mode="initial", **LISTS) as job:
            until_new(job)
            check(job, client, "b")


def test_a_collection_that_was_there_and_is_renamed_onto_is_incomplete_and_not_read(
    mongodb, tmp_path, spark, monkeypatch
):
    """A nightly `$out` must not read it each night."""
    monkeypatch.setattr(arrivals, "_EVERY_S", 0.1)
    with mongodb.connect() as client:
        client["inventory"]["b"].insert_one({"_id": 1})
        client["inventory"]["other"].insert_many([{"_id": n} for n in range(20)])
        with driven(mongodb, tmp_path, spark, snapshot__mode="initial", **LISTS) as job:
            job.until(lambda: not job.job.state.snapshot.tables)
            job.turn(3)
            client["inventory"]["other"].aggregate([{"$match": {}}, {"$out": "b"}])
            job.until(lambda: bool(job.job.state.incomplete))
            client["inventory"]["marks"].insert_one({"_id": "end"})
            job.until_seen("end")

            assert [answer.label for answer in job.answers] == ["snapshot.mode"]
