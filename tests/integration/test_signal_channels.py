"""Signals from a real broker and from a file, obeyed by a real job on an idle database."""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from engine.errors import SinkError
from tests.driven import SIGNAL_TABLE, driven, properties

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from engine.model import Part
    from tests.driven import Driven
    from tests.servers.kafka import KafkaBroker
    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]

TABLE = "CREATE TABLE one AS SELECT i AS id FROM generate_series(1, 100) i"
KEY = "ALTER TABLE one ADD PRIMARY KEY (id)"
EXECUTE = {"type": "execute-snapshot", "data": {"data-collections": ["public.one"], "type": "INCREMENTAL"}}
STOP = {"type": "stop-snapshot", "data": {"data-collections": ["public.one"], "type": "INCREMENTAL"}}


@pytest.fixture
def tables(database: Database) -> Database:
    database.execute(SIGNAL_TABLE, TABLE, KEY)
    return database


def channel(broker: KafkaBroker, topic: str, **more: str) -> dict[str, str]:
    return {"signal__kafka__topic": topic, "signal__kafka__bootstrap__servers": broker.bootstrap, **more}


def mark(message: str) -> str:
    return json.dumps({"id": message, "type": "log", "data": {"message": message}})


def marked(job: Driven) -> list[str]:
    return [answer.text for answer in job.answered("accepted")]


def reads(job: Driven) -> int:
    return sum(1 for event in job.events("one") if event["value"] and event["value"]["op"] == "r")


def test_a_kafka_signal_starts_and_stops_a_snapshot(
    tables: Database, tmp_path: Path, spark: SparkSession, kafka: KafkaBroker, topic: str
):
    kafka.create_topic(topic)
    with driven(tables, tmp_path, spark, **channel(kafka, topic)) as job:
        kafka.send(topic, json.dumps(EXECUTE), "tm")
        job.until_answered("finished")
        kafka.send(topic, json.dumps(STOP), "tm")
        job.until_answered("accepted", 2)

        assert reads(job) == 100
        assert [answer.label for answer in job.answered("accepted")] == [f"{topic}-0@0", f"{topic}-0@1"]


def test_on_an_idle_database_a_signal_is_acted_on_within_a_second(
    tables: Database, tmp_path: Path, spark: SparkSession, kafka: KafkaBroker, topic: str
):
    kafka.create_topic(topic)
    waits: list[float] = []
    with driven(tables, tmp_path, spark, **channel(kafka, topic)) as job:
        for number in range(1, 6):
            kafka.send(topic, mark(str(number)), "tm")
            since = time.monotonic()
            job.until_answered("accepted", number)
            waits.append(time.monotonic() - since)

    # the first one waits for the consumer to come up
    assert max(waits[1:]) < 1.0, waits


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ('{"type": "execute-snapshot"', "no valid JSON"),
        (mark("m") + " and more", "no valid JSON"),
        ('{"type": "execute-snapsht", "data": {}}', "did you mean 'execute-snapshot'?"),
        ('{"type": "execute-snapshot", "data": {"data-collections": "public.one"}}', "must be an array"),
        (None, "the message is empty"),
    ],
)
def test_a_signal_that_can_not_be_read_is_rejected_with_the_reason(
    tables: Database,
    tmp_path: Path,
    spark: SparkSession,
    kafka: KafkaBroker,
    topic: str,
    value: str | None,
    said: str,
):
    kafka.create_topic(topic)
    with driven(tables, tmp_path, spark, **channel(kafka, topic)) as job:
        kafka.send(topic, value, "tm")
        kafka.send(topic, mark("for somebody else"), "tm2")
        kafka.send(topic, mark("still here"), "tm")
        job.until_answered("accepted")

        (refused,) = job.answered("rejected")
        assert said in refused.text
        assert refused.label == f"{topic}-0@0"
        assert marked(job) == ["still here"]


def test_what_was_sent_while_the_job_was_down_is_taken_once(
    tables: Database, tmp_path: Path, spark: SparkSession, kafka: KafkaBroker, topic: str
):
    kafka.create_topic(topic, partitions=3)
    more = channel(kafka, topic)
    with driven(tables, tmp_path, spark, **more) as job:
        kafka.send(topic, mark("first"), "tm")
        job.until_answered("accepted")
        job.job.turn()  # notes that it has been told
    kafka.send(topic, mark("down"), "tm")
    with driven(tables, tmp_path, spark, **more) as job:
        kafka.send(topic, mark("up"), "tm")
        job.until_answered("accepted", 2)

        assert marked(job) == ["down", "up"]
        job.job.turn()
    with driven(tables, tmp_path, spark, **more) as job:
        kafka.send(topic, mark("last"), "tm")
        job.until_answered("accepted")

        assert marked(job) == ["last"]


def test_a_signal_of_a_turn_that_fails_is_taken_again_and_answered_once(
    tables: Database,
    tmp_path: Path,
    spark: SparkSession,
    kafka: KafkaBroker,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
):
    kafka.create_topic(topic)
    with driven(tables, tmp_path, spark, **channel(kafka, topic)) as job:
        kafka.send(topic, mark("before"), "tm")
        job.until_answered("accepted")
        kafka.send(topic, json.dumps(EXECUTE), "tm")
        fail_next_commit(job, monkeypatch)
        with pytest.raises(SinkError):
            job.until_answered("accepted", 2)
        job.job.close()
        job.job.settle()
        job.until_answered("finished")

        assert [answer.label for answer in job.answered("accepted")] == [f"{topic}-0@0", f"{topic}-0@1"]
        assert reads(job) == 100


def fail_next_commit(job: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = job.job._parts.sink
    commit = sink.commit

    def refuse(_turn: int, _parts: Sequence[Part]) -> None:
        monkeypatch.setattr(sink, "commit", commit)
        raise SinkError("out of order")

    monkeypatch.setattr(sink, "commit", refuse)


def test_a_new_partition_is_read_too(
    tables: Database, tmp_path: Path, spark: SparkSession, kafka: KafkaBroker, topic: str
):
    kafka.create_topic(topic)
    with driven(tables, tmp_path, spark, **channel(kafka, topic)) as job:
        kafka.send(topic, mark("first"), "tm")
        job.until_answered("accepted")
        admin = AdminClient(kafka.plain)
        admin.create_partitions([NewPartitions(topic, 5)])[topic].result(30)
        producer = Producer(kafka.plain)
        producer.produce(topic, mark("moved"), "tm", partition=4)
        assert producer.flush(30) == 0
        job.until_answered("accepted", 2)

        assert [answer.label for answer in job.answered("accepted")] == [f"{topic}-0@0", f"{topic}-4@0"]


@pytest.mark.thorough
def test_while_the_broker_is_down_the_log_is_streamed_and_the_fault_is_told_once(
    tables: Database, tmp_path: Path, spark: SparkSession, topic: str, caplog: pytest.LogCaptureFixture
):
    from tests.servers.kafka import KafkaBroker  # noqa: PLC0415  (as the fixture does)

    with KafkaBroker() as broker, caplog.at_level(logging.INFO, "adapters"):
        broker.create_topic(topic)
        with driven(tables, tmp_path, spark, **channel(broker, topic)) as job:
            broker.send(topic, mark("before"), "tm")
            job.until_answered("accepted")
            broker.kill()
            streamed(job, tables, seconds=8)
            broker.start()
            broker.send(topic, mark("after"), "tm")
            job.until_answered("accepted", 2)

    assert marked(job) == ["before", "after"]
    assert caplog.text.count("signals can't be read") == 1
    assert caplog.text.count(f"signals are read from the topic {topic!r} again") == 1


def streamed(job: Driven, database: Database, *, seconds: float) -> None:
    """Write and see it streamed, time and again."""
    slowest, until = 0.0, time.monotonic() + seconds
    while time.monotonic() < until:
        seen = len(job.events("one"))
        database.execute("UPDATE one SET id = id WHERE id = 1")
        since = time.monotonic()
        job.until(lambda seen=seen: len(job.events("one")) > seen)  # type: ignore[misc]
        slowest = max(slowest, time.monotonic() - since)

    assert slowest < 3.0


def test_lines_of_the_file_are_obeyed_once(tables: Database, tmp_path: Path, spark: SparkSession):
    path = tmp_path / "signals.jsonl"
    more: dict[str, Any] = {"signal__file": str(path)}
    path.write_text(json.dumps({"id": "monday", **EXECUTE}) + "\n")
    with driven(tables, tmp_path, spark, **more) as job:
        job.until_answered("finished")
        with path.open("a") as file:
            file.write(mark("half")[:20])
            file.flush()
            job.job.turn()
            file.write(mark("half")[20:] + "\n")
        job.until_answered("accepted", 2)

        assert reads(job) == 100
        assert [(answer.label, answer.id) for answer in job.answered("finished")] == [
            ("signals.jsonl@0", "monday")
        ]
        job.job.turn()  # notes that it has been told
    with driven(tables, tmp_path, spark, **more) as job, path.open("a") as file:
        file.write(mark("later") + "\n")
        file.flush()
        job.until_answered("accepted")

        assert marked(job) == ["later"]


def test_rows_of_the_signal_table_ask_for_nothing_while_that_channel_is_off(
    tables: Database, tmp_path: Path, spark: SparkSession
):
    path = tmp_path / "signals.jsonl"
    only_file = {"signal__file": str(path), "signal__enabled__channels": "file"}
    assert "signal.data.collection" in properties(tables, tmp_path)
    with driven(tables, tmp_path, spark, **only_file) as job:
        tables.execute("""INSERT INTO signals VALUES ('a', 'log', '{"message": "from the table"}')""")
        job.until_drained(tables)
        path.write_text(mark("from the file") + "\n")
        job.until_answered("accepted")

        assert marked(job) == ["from the file"]
