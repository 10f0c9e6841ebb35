"""The heartbeat event is as recorded."""

from __future__ import annotations

import json

from engine.events.batch import EVENTS
from engine.events.record.heartbeat import heartbeat
from engine.events.settings import EventSettings
from tests.golden.case import OWN_CASES


def test_a_heartbeat_is_as_recorded():
    lines = (OWN_CASES / "postgres" / "q1_heartbeat" / "events.jsonl").read_text("utf-8").split("\n")
    expected = next(json.loads(line) for line in lines if "heartbeat" in line)
    now_ms = json.loads(expected["value"])["payload"]["ts_ms"]

    batch = heartbeat(EventSettings("PostgreSQL_server", "inventory"), now_ms)

    assert batch.schema == EVENTS
    assert batch.to_pylist() == [{**expected, "headers": None}]


def test_schemas_are_left_out_where_they_are_off():
    batch = heartbeat(EventSettings("p", "d", key_schemas=False, value_schemas=False), 5)

    assert batch["key"].to_pylist() == ['{"serverName":"p"}']
    assert batch["value"].to_pylist() == ['{"ts_ms":5}']
