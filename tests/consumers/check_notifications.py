"""Notifications as Kafka Connect's own JsonConverter reads them back, field by field."""

from __future__ import annotations

import orjson
import pytest

from engine.events.record.notification import Notification, notification_records
from engine.events.settings import EventSettings
from tests.consumers import libraries
from tests.consumers.records import CONSUMER, Record, answers

_WRITES = "value: the converter writes "
NOTIFICATIONS = [
    Notification("a", "STARTED", "Initial Snapshot", 1_767_225_600_000, {"connector_name": "tm"}),
    Notification("b", "COMPLETED", "Incremental Snapshot", 0),
    Notification(
        'ü"\\\n😀',
        "TABLE_SCAN_COMPLETED",
        "Incremental Snapshot",
        2**53 + 1,
        {
            "connector_name": "tm",
            "data_collections": 'public.orders,public."odd, one"',
            "scanned_collection": 'public."odd, one"',
            "total_rows_scanned": "52100",
            "status": "SUCCEEDED",
        },
    ),
]


@pytest.mark.parametrize("version", libraries.CONVERTERS)
def test_the_converter_reads_every_field(version: str) -> None:
    batch = notification_records(EventSettings("tm", "d"), "notices", NOTIFICATIONS)
    rows = batch.select(["topic", "key", "value"]).to_pylist()
    records = [Record(row["topic"], row["key"].encode(), row["value"].encode()) for row in rows]

    read = answers(CONSUMER, [libraries.converters(version)], records)

    assert [event["key"]["id"] for event in read] == [notification.id for notification in NOTIFICATIONS]
    for event, notification, record in zip(read, NOTIFICATIONS, records, strict=True):
        value = event["value"]
        assert value.pop("additional_data") == notification.additional_data
        assert value == {
            "id": notification.id,
            "type": notification.type,
            "aggregate_type": notification.aggregate_type,
            "timestamp": str(notification.timestamp),
        }
        # A map has no order of its own, so the converter may write its entries in another one.
        for fault in event["faults"]:
            assert fault.startswith(_WRITES)
            assert orjson.loads(fault.removeprefix(_WRITES)) == orjson.loads(record.value or b"")
