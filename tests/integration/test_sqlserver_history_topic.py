"""The schema history in a topic of a real broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from adapters.sqlserver.events.schema_changes import ChangeType, SchemaChange
from adapters.sqlserver.events.source_block import ReadPosition
from adapters.sqlserver.schema.history import history
from adapters.sqlserver.server.position import LogPosition
from adapters.sqlserver.server.table import Column, Table
from adapters.sqlserver.settings import HistoryKind, HistorySettings
from engine.errors import SourceError
from engine.model import CollectionId

if TYPE_CHECKING:
    from adapters.sqlserver.schema.history import History
    from tests.servers.kafka import KafkaBroker

TABLE = Table(CollectionId(("testDB", "dbo", "t")), (Column("id", 1, "int", nullable=False),), ("id",))
CHANGE = SchemaChange(ChangeType.CREATE, TABLE, ReadPosition(1, "00000027:00000001:0001", snapshot="true"), 2)
END = {"testDB": LogPosition("ffffffff:ffffffff:ffff")}


def opened(topic: str, bootstrap: str, attempts: int = 100) -> History:
    client = {"bootstrap.servers": bootstrap}
    settings = HistorySettings(
        HistoryKind.KAFKA, topic=topic, producer=client, consumer=client, recovery_attempts=attempts
    )
    made = history(settings, "server1")
    assert made is not None
    return made


def test_what_is_recorded_comes_back_to_another_job(kafka: KafkaBroker, topic: str):
    first = opened(topic, kafka.bootstrap)
    first.record([CHANGE])
    first.close()

    second = opened(topic, kafka.bootstrap)
    assert second.recover(END) == {TABLE.id: TABLE}
    second.record([CHANGE, CHANGE])
    second.close()

    assert kafka.partitions(topic) == 1
    assert kafka.count(topic) == 3
    assert kafka.setting(topic, "retention.ms") == "-1"
    assert {(record.key(), record.partition()) for record in kafka.records(topic)} == {(None, 0)}


def test_no_topic_and_an_empty_one_are_no_history(kafka: KafkaBroker, topic: str):
    assert opened(topic, kafka.bootstrap).recover(END) == {}
    kafka.create_topic(topic)
    assert opened(topic, kafka.bootstrap).recover(END) == {}


def test_tombstones_of_a_shared_topic_are_passed_over(kafka: KafkaBroker, topic: str):
    kafka.create_topic(topic)
    kafka.send(topic, None, key="x")
    made = opened(topic, kafka.bootstrap)
    made.record([CHANGE])

    assert made.recover(END) == {TABLE.id: TABLE}


def test_brokers_that_are_not_there_are_an_error(topic: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("adapters.kafka.history_topic._TIMEOUT_S", 1.0)
    made = opened(topic, "localhost:1")

    with pytest.raises(SourceError, match="schema history can't be read"):
        made.recover(END)
    with pytest.raises(SourceError, match="schema history can't be made"):
        made.record([CHANGE])
