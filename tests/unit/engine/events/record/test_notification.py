"""The notification record, field by field, with its schemas and without."""

from __future__ import annotations

import json

from engine.events.batch import EVENTS
from engine.events.record.notification import Notification, notification_records
from engine.events.settings import EventSettings

STARTED = Notification(
    "ad-hoc",
    "STARTED",
    "Incremental Snapshot",
    1_700_000_000_123,
    {"connector_name": "tm", "data_collections": 'public.a,public."b"'},
)
PAYLOAD = {
    "id": "ad-hoc",
    "type": "STARTED",
    "aggregate_type": "Incremental Snapshot",
    "additional_data": {"connector_name": "tm", "data_collections": 'public.a,public."b"'},
    "timestamp": 1_700_000_000_123,
}
TEXT = {"type": "string", "optional": False}


def test_without_schemas_the_record_has_the_payloads_alone():
    settings = EventSettings("tm", "d", key_schemas=False, value_schemas=False)

    batch = notification_records(settings, "notices", [STARTED])

    (event,) = batch.to_pylist()
    assert batch.schema == EVENTS
    assert (event["topic"], event["headers"]) == ("notices", None)
    assert json.loads(event["key"]) == {"id": "ad-hoc"}
    assert json.loads(event["value"]) == PAYLOAD


def test_with_schemas_the_structs_have_debeziums_names_and_types():
    (event,) = notification_records(EventSettings("tm", "d"), "notices", [STARTED]).to_pylist()
    key, value = json.loads(event["key"]), json.loads(event["value"])

    assert key == {
        "schema": {
            "type": "struct",
            "fields": [{**TEXT, "field": "id"}],
            "optional": False,
            "name": "io.debezium.connector.common.NotificationKey",
            "version": 1,
        },
        "payload": {"id": "ad-hoc"},
    }
    assert value["payload"] == PAYLOAD
    assert value["schema"] == {
        "type": "struct",
        "fields": [
            {**TEXT, "field": "id"},
            {**TEXT, "field": "type"},
            {**TEXT, "field": "aggregate_type"},
            {"type": "map", "keys": TEXT, "values": TEXT, "optional": False, "field": "additional_data"},
            {"type": "int64", "optional": False, "field": "timestamp"},
        ],
        "optional": False,
        "name": "io.debezium.connector.common.Notification",
        "version": 1,
    }


def test_notifications_keep_their_order():
    both = [STARTED, Notification("x", "COMPLETED", "Initial Snapshot", 5)]

    batch = notification_records(EventSettings("tm", "d", value_schemas=False), "notices", both)

    assert [json.loads(value)["id"] for value in batch["value"].to_pylist()] == ["ad-hoc", "x"]
