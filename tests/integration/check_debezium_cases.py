"""The cases of Debezium's AbstractIncrementalSnapshotTest, by their names there, on three sources.

`make debezium-cases` runs them on PostgreSQL, on the stand-in for SQL Server and, where the case is not about
tables, on MongoDB. Where our behaviour differs on purpose, the test says what it is instead. Those with a
physical row identifier are left out: only Oracle's connector has one.
"""

from __future__ import annotations

import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import orjson
import pytest
from bson import Binary, Decimal128, Int64, ObjectId

from engine.errors import ConfigError
from tests.debezium_subjects import (
    EXPECTED,
    ROWS,
    OnMongo,
    OnSqlServer,
    Subject,
    relational,
    subject,
    subject_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.servers.kafka import KafkaBroker

pytestmark = pytest.mark.integration
__all__ = ["relational", "subject"]

MORE = [(number + 1, number) for number in range(ROWS, 2 * ROWS)]
TWICE = {number + 1: number for number in range(2 * ROWS)}
RAISED = {key: value + 2000 for key, value in EXPECTED.items()}


def test_snapshot_only(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        subject.send("execute-snapshot", "a")
        job.until_answered("finished")

        assert subject.values(job) == EXPECTED
        assert sorted(subject.reads(job)) == sorted(EXPECTED)


def test_invalid_tables_in_the_list(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        subject.send("execute-snapshot", "invalid1", "a", "invalid2")
        job.until_answered("finished")

        assert subject.values(job) == EXPECTED
        assert "no collection matches" in job.answered("accepted")[0].text


def test_inserts(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        subject.send("execute-snapshot", "a")
        subject.insert("a", MORE)
        job.until_answered("finished")
        subject.drain(job)

        assert subject.values(job) == TWICE


def test_inserts_with_kafka_snapshot_signal(subject: Subject, kafka: KafkaBroker, topic: str):
    subject.table("a")
    kafka.create_topic(topic)
    more = {
        "signal__enabled__channels": "source,kafka",
        "signal__kafka__topic": topic,
        "signal__kafka__bootstrap__servers": kafka.bootstrap,
    }
    with subject.job(**more) as job:
        data = {"type": "INCREMENTAL", "data-collections": [f"{subject.prefix}a"]}
        kafka.send(topic, orjson.dumps({"type": "execute-snapshot", "data": data}).decode(), "tm")
        subject.insert("a", MORE)
        job.until_answered("finished")
        subject.drain(job)

        assert subject.values(job) == TWICE


def test_inserts_without_pks(relational: Subject):
    """A table without a key needs a surrogate key here."""
    relational.table("a", "pk int, aa int")
    with relational.job() as job:
        relational.send("execute-snapshot", "a", surrogate_key="pk")
        job.until_answered("finished")

        assert sorted(relational.reads(job)) == sorted(EXPECTED)


def test_inserts_without_pks_and_null(relational: Subject):
    relational.table("a", "pk int, aa int", rows=0)
    relational.insert("a", [("NULL", 1), (1, 2), ("NULL", 3), (2, 4)])
    with relational.job(incremental__snapshot__chunk__size="1") as job:
        relational.send("execute-snapshot", "a", surrogate_key="pk")
        job.until_answered("finished")

        found = [event["value"]["after"] for event in job.events("a")]
        assert sorted(row["aa"] for row in found) == [1, 2, 3, 4]


def test_updates(subject: Subject):
    """In many transactions; `test_updates_large_chunk` is in one."""
    subject.table("a")
    with subject.begun("a") as job:
        for first in range(0, ROWS, 100):
            subject.add("a", 2000, first)
        job.until_answered("finished")
        subject.drain(job)

        assert subject.values(job) == RAISED


def test_updates_with_restart(subject: Subject):
    subject.table("a")
    with subject.begun("a"):
        subject.add("a", 2000)
    with subject.job() as job:
        job.until_answered("finished")
        subject.drain(job)

        assert subject.values(job) == RAISED


def test_updates_large_chunk(subject: Subject):
    subject.table("a")
    with subject.job(incremental__snapshot__chunk__size=str(2 * ROWS)) as job:
        subject.send("execute-snapshot", "a")
        subject.add("a", 2000)
        job.until_answered("finished")
        subject.drain(job)

        assert subject.values(job) == RAISED


def test_snapshot_only_with_restart(subject: Subject):
    subject.table("a")
    with subject.begun("a"):
        pass
    with subject.job() as job:
        job.until_answered("finished")

        assert subject.values(job) == EXPECTED
        assert sorted(subject.reads(job)) == sorted(EXPECTED)


def test_when_snapshot_multiple_tables_and_connector_restarts_then_only_not_already_processed(
    subject: Subject,
):
    subject.table("a")
    subject.table("b")
    with subject.job() as job:
        subject.send("execute-snapshot", "a", "b")
        job.until(lambda: subject.reads(job, "b"))
        assert sorted(subject.reads(job)) == sorted(EXPECTED)
    with subject.job() as job:
        job.until(lambda: len(subject.reads(job, "b")) == ROWS)

        assert len(subject.reads(job)) == ROWS
        assert subject.values(job, "b") == EXPECTED


def test_snapshot_preceeded_by_schema_change(relational: Subject):
    """The column that is added is in the events, unless SQL Server's capture instance lacks it."""
    relational.table("a")
    with relational.job() as job:
        relational.execute(f"ALTER TABLE {relational.schema}.a ADD c int")
        relational.send("execute-snapshot", "a")
        job.until_answered("finished")
        relational.execute(f"ALTER TABLE {relational.schema}.a DROP COLUMN c")
        relational.send("execute-snapshot", "a")
        job.until_answered("finished", 2)

        rows = [set(event["value"]["after"]) for event in job.events("a") if event["value"]["op"] == "r"]
        assert (
            sorted(relational.reads(job)[:ROWS]) == sorted(relational.reads(job)[ROWS:]) == sorted(EXPECTED)
        )
        assert relational.values(job) == EXPECTED
    added = set() if isinstance(relational, OnSqlServer) else {"c"}
    assert rows == [{"pk", "aa", *added}] * ROWS + [{"pk", "aa"}] * ROWS


def test_snapshot_with_regex_data_collections(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        subject.raw("execute-snapshot", [".*a"])
        job.until_answered("finished")

        assert subject.values(job) == EXPECTED


def test_snapshot_with_regex_data_collections_not_exist(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        subject.raw("execute-snapshot", [".*notExist"])
        job.until_answered("rejected")
        subject.drain(job)

        assert subject.reads(job) == []


def test_snapshot_with_duplicate_data_collections(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        subject.send("execute-snapshot", "a", "a")
        job.until_answered("finished")
        subject.drain(job)

        assert sorted(subject.reads(job)) == sorted(EXPECTED)


@pytest.mark.parametrize("named", [(), ("a",)], ids=["without_collections", "with_all_collections"])
def test_stop_current_incremental_snapshot_and_take_new_incremental_snapshot_after_restart(
    subject: Subject, named: tuple[str, ...]
):
    subject.table("a")
    with subject.begun("a") as job:
        subject.send("stop-snapshot", *named)
        job.until_answered("stopped")
        read = len(subject.reads(job))
        assert read < ROWS
    with subject.job() as job:
        subject.drain(job)
        assert len(subject.reads(job)) == read
        subject.send("execute-snapshot", "a")
        job.until_answered("finished")

        assert len(subject.reads(job)) == read + ROWS


def test_remove_not_yet_captured_collection_from_in_progress_incremental_snapshot(subject: Subject):
    subject.table("a")
    subject.table("b")
    with subject.begun("a", "b") as job:
        subject.send("stop-snapshot", "b")
        job.until_answered("finished")
        subject.drain(job)

        assert (subject.values(job), subject.reads(job, "b")) == (EXPECTED, [])


def test_remove_started_captured_collection_from_in_progress_incremental_snapshot(subject: Subject):
    subject.table("a")
    subject.table("b")
    with subject.begun("a", "b") as job:
        subject.send("stop-snapshot", "a")
        job.until_answered("finished")
        subject.drain(job)

        assert len(subject.reads(job)) < ROWS
        assert subject.values(job, "b") == EXPECTED


def test_snapshot_new_table_without_captured_schema(subject: Subject):
    with subject.job(tidemark__snapshot__new="off") as job:
        subject.table("a")
        subject.send("execute-snapshot", "a")
        job.until_answered("finished")
        subject.drain(job)

        assert subject.values(job) == EXPECTED


def test_snapshot_with_additional_condition(subject: Subject):
    subject.table("a")
    subject.insert("a", [(key, 12345678) for key in range(2001, 2011)])
    with subject.job() as job:
        subject.send("execute-snapshot", "a", additional_condition=subject.condition("=", 12345678))
        job.until_answered("finished")

        assert sorted(subject.reads(job)) == list(range(2001, 2011))


def test_snapshot_with_new_additional_conditions_field(subject: Subject):
    subject.table("a")
    subject.insert("a", [(key, 12345678) for key in range(2001, 2011)])
    with subject.job() as job:
        condition = {"data-collection": f"{subject.prefix}a", "filter": subject.condition("=", 12345678)}
        subject.send("execute-snapshot", "a", additional_conditions=[condition])
        job.until_answered("finished")

        assert sorted(subject.reads(job)) == list(range(2001, 2011))


def test_snapshot_with_additional_condition_with_restart(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        subject.send("execute-snapshot", "a", additional_condition=subject.condition(">=", 100))
        job.until(lambda: subject.reads(job))
        assert len(subject.reads(job)) < ROWS - 100
    with subject.job() as job:
        job.until_answered("finished")

        assert sorted(subject.reads(job)) == list(range(101, ROWS + 1))


def test_snapshot_with_surrogate_key(relational: Subject):
    relational.table("a")
    with relational.job() as job:
        relational.send("execute-snapshot", "a", surrogate_key="aa")
        job.until_answered("finished")

        assert relational.values(job) == EXPECTED


def test_snapshot_with_additional_condition_with_surrogate_key(relational: Subject):
    relational.table("a")
    relational.insert("a", [(key, 12345678) for key in range(2001, 2011)])
    with relational.job() as job:
        more = {"additional_condition": relational.condition("=", 12345678), "surrogate_key": "aa"}
        relational.send("execute-snapshot", "a", **more)
        job.until_answered("finished")

        assert sorted(relational.reads(job)) == list(range(2001, 2011))


@pytest.mark.parametrize("strategy", ["insert_insert", "insert_delete"])
def test_watermarking_strategy(subject: Subject, strategy: str):
    """`insertInsertWatermarkingStrategy` and `insertDeleteWatermarkingStrategy`.

    MongoDB's connector declares only the former, so the latter is refused there.
    """
    if isinstance(subject, OnMongo) and strategy == "insert_delete":
        with pytest.raises(ConfigError, match="use insert_insert"):
            subject.job(incremental__snapshot__watermarking__strategy=strategy)
        return
    subject.log_whole_signals()
    subject.table("a")
    with subject.job(incremental__snapshot__watermarking__strategy=strategy) as job:
        subject.send("execute-snapshot", "a")
        subject.insert("a", MORE)
        job.until_answered("finished")
        subject.drain(job)

        assert subject.values(job) == TWICE
    closed = subject.signals("snapshot-window-close")
    assert (closed > 0) == (strategy == "insert_insert")
    assert (subject.signals("snapshot-window-open") > 0) == (strategy == "insert_insert")


def test_should_snapshot_newly_added_table_to_include_list_after_restart(subject: Subject):
    """Ours reads the table by itself unless `tidemark.snapshot.new` is off."""
    subject.table("a")
    subject.table("b")
    with subject.job(**subject.only("b"), tidemark__snapshot__new="off") as job:
        subject.send("execute-snapshot", "b")
        job.until_answered("finished")
    with subject.job(**subject.only("a", "b"), tidemark__snapshot__new="off") as job:
        subject.send("execute-snapshot", "a")
        job.until(lambda: len(subject.reads(job)) == ROWS)

        assert subject.values(job) == EXPECTED


def test_pause_during_snapshot(subject: Subject):
    subject.table("a")
    with subject.begun("a") as job:
        subject.send("pause-snapshot")
        job.until_answered("paused")
        before = len(subject.reads(job))
        subject.insert("a", MORE)
        subject.drain(job)
        assert len(subject.reads(job)) == before < ROWS
        subject.send("resume-snapshot")
        job.until_answered("finished")

        assert subject.values(job) == TWICE


def test_should_execute_regular_snapshot_when_additional_condition_empty(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        subject.send("execute-snapshot", "a", additional_conditions=[])
        job.until_answered("finished")

        assert subject.values(job) == EXPECTED


def test_notification(subject: Subject):
    subject.table("a")
    sink = {"notification__enabled__channels": "sink", "notification__sink__topic__name": "notices"}
    with subject.job(**sink) as job:
        subject.send("execute-snapshot", "a")
        job.until(lambda: subject.reads(job))
        subject.send("pause-snapshot")
        job.until_answered("paused")
        subject.send("resume-snapshot")
        job.until(lambda: "COMPLETED" in [notice["type"] for notice in notices(job, "Incremental Snapshot")])

        told = notices(job, "Incremental Snapshot")
    named = {"connector_name": "tm"}
    listed = named | {"data_collections": f"{subject.prefix}a"}
    scanned = {"scanned_collection": f"{subject.prefix}a", "total_rows_scanned": str(ROWS)}
    by_type = {notification["type"]: notification["additional_data"] for notification in told}
    assert [
        notification["type"]
        for notification in told
        if notification["type"] not in {"IN_PROGRESS", "CERTIFIED"}
    ] == [
        *("STARTED", "PAUSED", "RESUMED", "TABLE_SCAN_COMPLETED", "COMPLETED"),
    ]
    assert by_type["STARTED"] == by_type["PAUSED"] == by_type["RESUMED"] == listed
    assert by_type["TABLE_SCAN_COMPLETED"] == listed | scanned | {"status": "SUCCEEDED"}
    assert by_type["COMPLETED"] == named
    moving = [
        notification["additional_data"] for notification in told if notification["type"] == "IN_PROGRESS"
    ]
    assert [int(notification["last_processed_key"]) for notification in moving] == sorted(
        int(notification["last_processed_key"]) for notification in moving
    )
    for notification in moving:
        assert {
            name: notification[name] for name in notification if name != "last_processed_key"
        } == listed | {
            "current_collection_in_progress": f"{subject.prefix}a",
            "maximum_key": str(ROWS),
        }


def notices(job: Any, aggregate: str) -> list[dict[str, Any]]:
    """The notifications of this kind that the sink has."""
    found = [event["value"] for event in job.events() if event["topic"] == "notices"]
    return [event for event in found if event["aggregate_type"] == aggregate]


class TestNotifications:
    """The cases of AbstractNotificationsIT, but for those of JMX, which is not here."""

    SINK = {"notification__enabled__channels": "sink", "notification__sink__topic__name": "notices"}  # noqa: RUF012

    def test_notification_correctly_sent_on_its_topic(self, subject: Subject):
        subject.table("a")
        subject.table("b")
        begun_ms = time.time() * 1000
        with subject.job(**subject.only("a", "b"), **self.SINK, snapshot__mode="initial") as job:
            job.until(lambda: "COMPLETED" in [notice["type"] for notice in notices(job, "Initial Snapshot")])
            told = notices(job, "Initial Snapshot")

        assert (told[0]["type"], told[-1]["type"]) == ("STARTED", "COMPLETED")
        assert all(begun_ms - 1 <= notification["timestamp"] <= time.time() * 1000 for notification in told)
        for table in ("a", "b"):
            name = f"{subject.prefix}{table}"
            data = [
                notification["additional_data"]
                for notification in told
                if name in notification["additional_data"].values()
            ]
            moving = [
                notification
                for notification in data
                if notification.get("current_collection_in_progress") == name
            ]
            scanned = [notification for notification in data if "status" in notification]
            assert len(moving) == len(scanned) == 1
            assert name in moving[0]["data_collections"].split(",")
            assert name in scanned[0]["data_collections"].split(",")
            assert (scanned[0]["status"], scanned[0]["total_rows_scanned"]) == ("SUCCEEDED", str(ROWS))

    def test_notification_not_sent_if_no_channel_is_configured(self, subject: Subject):
        subject.table("a")
        with subject.job(notification__sink__topic__name="notices") as job:
            subject.send("execute-snapshot", "a")
            job.until_answered("finished")

            assert subject.topics(job) == {f"tm.{subject.prefix}a"}

    def test_report_error_when_sink_channel_is_enabled_and_no_topic_configuration_provided(
        self, subject: Subject
    ):
        with pytest.raises(ConfigError, match=r"notification\.sink\.topic\.name"):
            subject.job(notification__enabled__channels="sink")

    def test_sink_notification_will_correctly_save_offset_after_snapshot(self, subject: Subject):
        subject.table("a")
        more = subject.only("a") | self.SINK | {"snapshot__mode": "initial"}
        with subject.job(**more) as job:
            job.until(lambda: "COMPLETED" in [notice["type"] for notice in notices(job, "Initial Snapshot")])
            told = len(notices(job, "Initial Snapshot"))
        with subject.job(**more) as job:
            subject.insert("a", MORE)
            subject.drain(job)

            again = [notice["type"] for notice in notices(job, "Initial Snapshot")[told:]]
            assert set(again) <= {"SKIPPED"}
            assert len(subject.reads(job)) == ROWS
            assert subject.values(job) == TWICE


@pytest.fixture
def mongo(request: pytest.FixtureRequest) -> OnMongo:
    found = subject_of(request, "mongodb")
    assert isinstance(found, OnMongo)
    return found


class TestMongo:
    """What the suite of Debezium's connector for MongoDB has besides."""

    @pytest.mark.parametrize(
        "made",
        [
            lambda number: number,
            lambda number: Int64(2**31 + number),
            float,
            lambda number: Decimal128(Decimal(2**63 + number)),
            lambda _number: ObjectId(),
            lambda _number: Binary.from_uuid(uuid4()),
            lambda _number: str(uuid4()),
        ],
        ids=["int32", "int64", "double", "decimal128", "object_id", "uuid", "string"],
    )
    def test_snapshot_only(self, mongo: OnMongo, made: Callable[[int], Any]):
        rows = [(made(number), number) for number in range(ROWS)]
        mongo.table("a", rows=0)
        mongo.insert("a", rows)
        with mongo.job() as job:
            mongo.send("execute-snapshot", "a")
            job.until_answered("finished")

            found = [event["value"] for event in job.events("a") if event["value"]["op"] == "r"]
            ids = [event["key"]["id"] for event in job.events("a") if event["value"]["op"] == "r"]
        assert sorted(orjson.loads(event["after"])["aa"] for event in found) == list(range(ROWS))
        assert len(set(ids)) == ROWS

    def test_should_stream_with_database_include_list(self, mongo: OnMongo):
        with mongo.job(database__include__list="shop") as job:
            mongo.table("a", rows=1)
            mongo.drain(job)

            assert mongo.values(job) == {1: 0}

    @pytest.mark.parametrize(
        ("condition", "expected"),
        [("{ aa: { $lt: 250 } }", range(250)), ("{ aa: 250 }", [250])],
    )
    def test_execute_incremental_snapshot_with_additional_condition(
        self, mongo: OnMongo, condition: str, expected: Sequence[int]
    ):
        mongo.table("a")
        quoted = condition.replace("aa", '"aa"').replace("$lt", '"$lt"')
        with mongo.job() as job:
            chosen = {"data-collection": "shop.a", "filter": quoted}
            mongo.send("execute-snapshot", "a", additional_conditions=[chosen])
            job.until_answered("finished")

            assert sorted(mongo.values(job).values()) == list(expected)

    def test_should_not_get_stuck_on_invalid_additional_condition(self, mongo: OnMongo):
        mongo.table("a")
        with mongo.job() as job:
            broken = {"data-collection": "shop.a", "filter": "(THIS IS NOT VALID"}
            mongo.send("execute-snapshot", "a", additional_conditions=[broken])
            job.until_answered("rejected")
            mongo.send("execute-snapshot", "a")
            job.until_answered("finished")

            assert mongo.values(job) == EXPECTED


def test_should_not_get_stuck_on_invalid_surrogate_key(relational: Subject):
    relational.table("a")
    with relational.job() as job:
        relational.send("execute-snapshot", "a", surrogate_key="totally_invalid_column_name")
        job.until_answered("rejected")
        relational.send("execute-snapshot", "a")
        relational.insert("a", [(ROWS + 1, ROWS)])
        job.until_answered("finished")
        relational.drain(job)

        assert relational.values(job) == {**EXPECTED, ROWS + 1: ROWS}
