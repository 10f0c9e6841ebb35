"""Three members: one that lags and is to be read from, elections, a primary whose writes are rolled back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import WriteConcern
from pyspark.sql import SparkSession

from engine.errors import SourceError
from engine.model import CollectionId, Target
from tests.integration.test_mongodb_job import driven, fill, replayed, signal, stands, writing
from tests.servers.mongodb import MongoSet

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def three() -> Iterator[MongoSet]:
    """A replica set of three members."""
    with MongoSet() as made:
        yield made


@pytest.fixture
def members(three: MongoSet) -> MongoSet:
    """The same, whole and without any database of ours."""
    three.start()
    three.clear()
    return three


def test_a_snapshot_is_measured_and_read_on_the_primary_whatever_the_string_says(
    members: MongoSet, tmp_path: Path, spark: SparkSession
):
    # Large enough to be cut; the member that the string names knows the first thousand documents only.
    more = {
        "mongodb.connection.string": f"{members.uri}&readPreference=secondary&readPreferenceTags=member:2",
        "snapshot.mode": "initial",
        "incremental.snapshot.chunk.size": "500",
        "tidemark.window.max.chunks": "2",
    }
    with members.connect() as client:
        fill(client, 1000)
        wait_for_all(members, client)
        members.hold_back(members.far)
        try:
            client["inventory"]["t"].insert_many([{"_id": n, "n": n} for n in range(1000, 3990)])
            with driven(members, tmp_path, spark, **more) as job:
                job.until(lambda: not job.job.state.snapshot.tables)
                initial = replayed(job.events("t"))
                told = [str(answer.outcome) for answer in job.answers].count("finished")
                signal(client, "inventory.t")
                job.until_answered("finished", told + 1)
                read = [event for event in job.events("t") if event["value"]["op"] == "r"]
        finally:
            members.hold_back(members.far, on=False)

        assert initial == stands(client, "t")
        assert len(read) == 2 * 3990


@pytest.mark.thorough
def test_a_collection_that_the_named_member_does_not_know_yet_is_read(
    members: MongoSet, tmp_path: Path, spark: SparkSession
):
    preference = "&readPreference=secondary&readPreferenceTags=member:2"
    with members.connect() as client:
        wait_for_all(members, client)
        members.hold_back(members.far)
        try:
            fill(client, 100)
            string = {"mongodb.connection.string": members.uri + preference}
            with driven(members, tmp_path, spark, **string) as job:
                signal(client, "inventory.t")
                job.until(lambda: len(job.answers) > 1)
                read = replayed([event for event in job.events("t") if event["value"]["op"] == "r"])
        finally:
            members.hold_back(members.far, on=False)

        assert [str(answer.outcome) for answer in job.answers] == ["accepted", "finished"]
        assert read == stands(client, "t")


def wait_for_all(members: MongoSet, client: Any) -> None:
    """Wait until every member has applied all there is."""
    all_of_them = WriteConcern(w=len(members.members), wtimeout=20_000)
    client["inventory"].get_collection("marks", write_concern=all_of_them).insert_one({"_id": "all"})


def test_what_is_rolled_back_bounds_no_snapshot_and_is_in_no_event(
    members: MongoSet, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
):
    # A primary that nobody follows shows its own writes to whoever does not ask for acknowledged ones.
    monkeypatch.setattr("adapters.mongodb.server.collection_probes._PATIENCE_MS", 500)
    chunks = {"tidemark.window.max.chunks": "2", "incremental.snapshot.chunk.size": "200"}
    with members.connect() as client:
        fill(client)
        wait_for_all(members, client)
        with driven(members, tmp_path, spark, **chunks) as job:
            client["inventory"]["marks"].insert_one({"_id": "begin"})
            job.until_seen("begin")
            extents: Any = job.job._parts.source.tables()
            members.cut_off()
            alone = client["inventory"].get_collection("t", write_concern=WriteConcern(w=1))
            alone.delete_many({"_id": {"$gte": 1000}})
            with pytest.raises(SourceError, match="time limit"):
                extents.measure([Target(CollectionId(("inventory", "t")))])
            members.primary.kill()
            members.cut_off(on=False)
            signal(client, "inventory.t")
            members.start()
            job.until_answered("finished")
            client["inventory"]["marks"].insert_one({"_id": "end"})
            job.until_seen("end")
            held = replayed(job.events("t"))

        assert held == stands(client, "t")
        assert len(held) == 2000


def test_elections_and_crashes_under_writes_lose_nothing(
    members: MongoSet, tmp_path: Path, spark: SparkSession
):
    chunks = {"tidemark.window.max.chunks": "1", "incremental.snapshot.chunk.size": "400"}
    with members.connect() as client:
        fill(client)
        with driven(members, tmp_path, spark, **chunks) as job:
            with writing(members, 7):
                signal(client, "inventory.t")
                job.until(lambda: bool(job.events("t")))
                with members.primary.connect_directly() as primary:
                    primary.admin.command({"replSetStepDown": 5, "force": True})
                time.sleep(0.5)
                members.kill()
                members.start()
                job.until_answered("finished")
            client["inventory"]["marks"].insert_one({"_id": "end"})
            job.until_seen("end")

        assert replayed(job.events("t")) == stands(client, "t")
