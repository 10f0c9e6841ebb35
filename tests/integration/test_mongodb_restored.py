"""A server that is put back to an older copy of its files: what was streamed is not its log any more."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from bson.timestamp import Timestamp
from pymongo import MongoClient
from pyspark.sql import SparkSession

from engine.errors import PositionLost
from tests.integration.test_mongodb_job import driven, fill, replayed, stands
from tests.servers.mongodb import MongoServer

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def own_server():
    """A server that nobody else uses."""
    with MongoServer() as server:
        yield server


def idle(server: MongoServer, job: Any) -> None:
    """Let the position go on without an event: entries of the log that are none of the stream's."""
    event = job.job.state.memory["event"][0]
    with server.connect() as client:
        client.admin.command("appendOplogNote", 1, data={"nothing": True})
    job.until(lambda: job.job.state.position.order[0] > event)


@pytest.mark.parametrize("when", ["after idle time", "at once"])
def test_a_server_put_back_is_a_clear_stop(
    own_server: MongoServer, tmp_path: Path, spark: SparkSession, when: str
):
    with own_server.connect() as client:
        own_server.clear()
        fill(client, 100)
    copy = own_server.put_aside()
    with driven(own_server, tmp_path, spark) as job:
        with own_server.connect() as client:
            client["inventory"]["t"].insert_many([{"_id": n} for n in range(1000, 1100)])
            client["inventory"]["t"].update_many({"_id": {"$lt": 50}}, {"$set": {"n": -1}})
            client["inventory"]["marks"].insert_one({"_id": "end"})
            job.until_seen("end")
        if when == "after idle time":
            idle(own_server, job)
        job.until(lambda: job.job._checkpoint.state.position == job.job.state.position)
        own_server.put_back(copy)
        with own_server.connect() as client:
            client["inventory"]["t"].insert_one({"_id": "after"})
        with pytest.raises(PositionLost, match="put back to an older copy") as told:
            job.until(lambda: any(event["key"] == {"id": '"after"'} for event in job.events("t")))

    assert "reach back" not in str(told.value)
    assert "empty checkpoint" in told.value.hint


def ahead(client: MongoClient[dict[str, Any]], seconds: int) -> None:
    """Put the cluster's clock ahead, as a member with a fast clock does."""
    with client.start_session() as session:
        client.admin.command("ping", session=session)
        time_now: Any = session.cluster_time
        later = {**time_now, "clusterTime": Timestamp(time_now["clusterTime"].time + seconds, 1)}
        session.advance_cluster_time(later)
        client.admin.command("appendOplogNote", 1, data={"ahead": seconds}, session=session)


def test_where_needed_it_begins_anew(own_server: MongoServer, tmp_path: Path, spark: SparkSession):
    own_server.clear()
    copy = own_server.put_aside()
    more = {"snapshot.mode": "when_needed"}
    with driven(own_server, tmp_path, spark, **more) as job, own_server.connect() as client:
        client["inventory"]["t"].insert_one({"_id": 1})
        client["inventory"]["marks"].insert_one({"_id": "end"})
        job.until_seen("end")
        idle(own_server, job)
        job.until(lambda: job.job._checkpoint.state.position == job.job.state.position)
    own_server.put_back(copy)
    with own_server.connect() as client:
        client["inventory"]["t"].insert_one({"_id": 2})
        with driven(own_server, tmp_path, spark, **more) as job:
            job.until(lambda: not job.job.state.snapshot.tables)
            held = replayed(job.events("t"))
        assert held.items() >= stands(client, "t").items()


def test_a_restart_after_idle_time_goes_on(own_server: MongoServer, tmp_path: Path, spark: SparkSession):
    own_server.clear()
    with driven(own_server, tmp_path, spark) as job, own_server.connect() as client:
        with client.start_session() as session, session.start_transaction():
            client["inventory"]["t"].insert_many([{"_id": n} for n in range(20)], session=session)
        job.until(lambda: len(job.events("t")) == 20)
        idle(own_server, job)
        job.until(lambda: job.job._checkpoint.state.position == job.job.state.position)
        own_server.stop()
        own_server.start()
        begun = time.monotonic()
        client["inventory"]["t"].insert_one({"_id": "after"})
        job.until(lambda: len(job.events("t")) == 21)

    assert time.monotonic() - begun < 30


def test_a_server_put_back_whose_clock_is_behind_the_event_is_a_clear_stop(
    tmp_path: Path, spark: SparkSession
):
    # Nothing later than the event comes, so the server does not miss it by itself.
    with MongoServer() as server:
        copy = server.put_aside()
        with driven(server, tmp_path, spark) as job:
            with server.connect() as client:
                ahead(client, 20)
                client["inventory"]["marks"].insert_one({"_id": "end"})
                job.until_seen("end")
            job.until(lambda: job.job._checkpoint.state.position == job.job.state.position)
            server.put_back(copy)
            with server.connect() as client:
                client["inventory"]["t"].insert_one({"_id": "after"})
                ahead(client, 30)  # past the event, as time does
            with pytest.raises(PositionLost, match="put back to an older copy"):
                job.until(lambda: any(event["key"] == {"id": '"after"'} for event in job.events("t")))


def test_an_event_that_the_log_no_longer_reaches_back_to_is_not_missed(tmp_path: Path, spark: SparkSession):
    # Nothing happens to what is captured while others fill the log: the position goes on, the event goes.
    scope = {"capture.scope": "database", "capture.target": "inventory"}
    with MongoServer(oplog_mb=1, checkpoint_s=1) as server, server.connect() as client:
        with driven(server, tmp_path, spark, **scope) as job:
            client["inventory"]["marks"].insert_one({"_id": "begin"})
            job.until_seen("begin")
            began: Any = client["local"]["oplog.rs"].find_one({"ns": "inventory.marks", "op": "i"})
            while client["local"]["oplog.rs"].find_one({"ts": began["ts"]}):
                client["other"]["t"].insert_many([{"large": "x" * 100_000} for _ in range(100)])
                job.turn()
            job.until(lambda: job.job._checkpoint.state.position == job.job.state.position)
        with driven(server, tmp_path, spark, **scope) as job:
            client["inventory"]["marks"].insert_one({"_id": "end"})
            job.until_seen("end")
