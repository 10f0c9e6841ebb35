"""What can't be read is answered, and soon: states that the server drops, rights that lack, conditions."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from adapters.mongodb.server.collection_probes import CollectionProbes
from adapters.mongodb.snapshot.conditions import check_condition
from engine.errors import SignalError
from engine.model import CollectionId, Target
from tests.integration.test_mongodb_job import (
    KEPT_S,
    driven,
    fill,
    history_window,
    keep_history,
    replayed,
    signal,
    stands,
    writing,
)
from tests.integration.test_mongodb_security import access, trusting
from tests.servers.certificates import Authority
from tests.servers.mongodb import MongoServer, Security

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.integration

SECRET = "s3cr3t"
SOON = {"retriable.restart.connector.wait.ms": "500"}
"""Short pauses before something is tried again."""


@pytest.mark.thorough
def test_a_snapshot_whose_states_are_always_gone_fails_and_names_the_parameter(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession
):
    with mongodb.connect() as client:
        fill(client, 3000)
        with (
            history_window(client, seconds=0),
            driven(mongodb, tmp_path, spark, **SOON) as job,
            writing(mongodb, 5),
        ):
            slow_reading(job)
            signal(client, "inventory.t")
            job.until_answered("failed")
            (failed,) = [answer for answer in job.answers if answer.outcome == "failed"]
            keep_history(client, seconds=KEPT_S)
            signal(client, "inventory.t")
            job.until_answered("finished")

    assert "raise minSnapshotHistoryWindowInSeconds" in failed.text
    assert "the same signal again reads just that" in failed.text


def slow_reading(job: Any) -> None:
    """Have windows be read some time behind the one that was chosen, as by executors that are busy."""
    reader = job.job._parts.source._opening._tools.chunks
    read = reader.read

    def late(*args: Any, **more: Any) -> Any:
        time.sleep(0.3)
        return read(*args, **more)

    reader.read = late


@pytest.mark.thorough
def test_a_window_that_outlives_what_the_server_keeps_is_read_in_smaller_ones(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession, caplog: pytest.LogCaptureFixture
):
    # A second in the place of 300: the window is read too late as long as it holds more than one chunk.
    with mongodb.connect() as client:
        fill(client, 3000)
        with history_window(client, seconds=1):
            more = {"incremental.snapshot.chunk.size": "500", "tidemark.window.max.chunks": "6"}
            with driven(mongodb, tmp_path, spark, **more, **SOON) as job, writing(mongodb, 6):
                too_large(job, 2.5)
                signal(client, "inventory.t")
                job.until_answered("finished")
            client["inventory"]["marks"].insert_one({"_id": "end"})
            with driven(mongodb, tmp_path, spark) as job:
                job.until_seen("end")

        assert replayed(job.events("t")) == stands(client, "t")
    assert "the window is split" in caplog.text


def too_large(job: Any, seconds: float) -> None:
    """Have windows of several runs, or of a long one, be read that late."""
    reader = job.job._parts.source._opening._tools.chunks
    read = reader.read

    def late(window_id: str, reads: Any, at: Any, **more: Any) -> Any:
        if len(reads) > 1 or any(read.run.chunks > 1 for read in reads):
            time.sleep(seconds)
        return read(window_id, reads, at, **more)

    reader.read = late


def test_a_signal_by_file_to_a_job_that_has_streamed_nothing_is_read_at_once(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession
):
    # The stream begins behind the newest operation; nothing can be read at that time before there is another.
    signals = tmp_path / "signals"
    signals.touch()
    more = {"signal.enabled.channels": "file", "signal.file": str(signals)}
    with mongodb.connect() as client:
        fill(client, 20)
        with driven(mongodb, tmp_path, spark, **more) as job:
            data = '{"type": "incremental", "data-collections": ["inventory.t"]}'
            signals.write_text(f'{{"id": "f", "type": "execute-snapshot", "data": {data}}}\n')
            begun = time.monotonic()
            job.until_answered("finished")

    assert time.monotonic() - begun < 8  # the server's own next operation comes after up to ten seconds


# Rights.


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(authority: Authority) -> Iterator[MongoServer]:
    """A server with users of few rights."""
    anywhere = {"db": "", "collection": ""}
    with MongoServer(security=Security(authority)) as server, server.connect() as client:
        grant = {
            "streams": ["find", "changeStream", "listCollections"],
            "hides": ["find", "changeStream"],
        }
        for user, actions in grant.items():
            privileges = [{"resource": anywhere, "actions": actions}]
            client.admin.command("createRole", user, privileges=privileges, roles=[])
            client.admin.command("createUser", user, pwd=SECRET, roles=[user])
        yield server


def as_user(server: MongoServer, authority: Authority, user: str) -> dict[str, str]:
    given = access(trusting(server, authority))
    return {**given, "mongodb.user": user, "mongodb.password": SECRET, **SOON}


def test_without_the_right_to_measure_a_collection_is_read_by_an_estimate(
    secured: MongoServer, authority: Authority, tmp_path: Path, spark: SparkSession
):
    with secured.connect() as client:
        secured.clear()
        fill(client, 3000)
        more = {"tidemark.window.max.chunks": "1", **as_user(secured, authority, "streams")}
        with driven(secured, tmp_path, spark, **more) as job:
            signal(client, "inventory.t")
            job.until_answered("finished")

        reads = [event for event in job.events("t") if event["value"]["op"] == "r"]
        assert len(reads) == 3000


def test_a_collection_that_can_not_be_measured_is_refused_and_the_log_goes_on(
    secured: MongoServer, authority: Authority, tmp_path: Path, spark: SparkSession
):
    with secured.connect() as client:
        secured.clear()
        fill(client, 10)
        with driven(secured, tmp_path, spark, **as_user(secured, authority, "hides")) as job:
            opened = job.job._log
            signal(client, "inventory.t")
            job.until_answered("rejected")
            client["inventory"]["marks"].insert_one({"_id": "end"})
            job.until_seen("end")
            again = job.job._log

    (rejected,) = [answer for answer in job.answers if answer.outcome == "rejected"]
    assert "grant listCollections on the database 'inventory'" in rejected.text
    assert again is opened


def test_an_answer_that_will_not_change_is_a_collection_s_refusal(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession
):
    failing = {"failCommands": ["aggregate", "count"], "errorCode": 13, "appName": "tidemark"}
    with mongodb.connect() as client:
        fill(client, 10)
        with driven(mongodb, tmp_path, spark) as job:
            opened = job.job._log
            mongodb.fail_point("failCommand", on=True, **failing)
            try:
                signal(client, "inventory.t")
                job.until_answered("rejected")
                again = job.job._log
            finally:
                mongodb.fail_point("failCommand", on=False)

    (rejected,) = [answer for answer in job.answers if answer.outcome == "rejected"]
    assert "measuring the collection failed" in rejected.text
    assert "grant our role the privilege" in rejected.text
    assert again is opened


# Conditions.


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ('{"$text": {"$search": "a"}}', "'$text' needs an index of its own"),
        ('{"$and": [{"n": 1}, {"$text": {"$search": "a"}}]}', "'$text' needs an index of its own"),
        ('{"at": {"$near": [0, 0]}}', "'$near' needs an index of its own"),
        ('{"n": {"$nothing": 1}}', "the condition can't be used: error 2 (BadValue)"),
    ],
)
def test_a_condition_that_no_window_can_read_by_is_refused(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession, condition: str, said: str
):
    with mongodb.connect() as client:
        fill(client, 20)
        client["inventory"]["t"].create_index([("v", "text")])
        client["inventory"]["t"].create_index([("at", "2d")])
        with driven(mongodb, tmp_path, spark, **{"tidemark.window.max.chunks": "1"}) as job:
            signal(client, "inventory.t", **{"additional-condition": condition})
            job.until_answered("rejected")

    (rejected,) = [answer for answer in job.answers if answer.outcome == "rejected"]
    assert said in rejected.text


@pytest.mark.parametrize(
    "condition",
    [
        '{"n": "sought", "at": {"$geoNear": [0, 0]}}',
        '{"$expr": {"$toInt": "sought"}}',
        '{"$expr": {"$let": {"vars": {}, "in": "$$sought"}}}',
        '{"n": {"$type": "sought"}}',
        '{"n": {"$oid": "sought"}}',
        '{"n": "sought"',
    ],
)
def test_a_refused_condition_is_not_quoted(mongodb: MongoServer, condition: str):
    """What somebody looks for may be the value of a document; a planner that finds no plan shows its tree."""
    with mongodb.connect() as client:
        client.inventory.t.insert_one({"n": 1})

        with pytest.raises(SignalError) as refused:
            check_condition(
                CollectionProbes(lambda: client), Target(CollectionId(("inventory", "t")), condition)
            )

    assert "sought" not in str(refused.value)
