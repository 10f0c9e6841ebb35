"""Transactions are told of when their events are: BEGIN before the first, END before another's first."""

from __future__ import annotations

from dataclasses import replace

import orjson

from adapters.source.log.open_transaction import OpenTransaction, from_json, to_json
from adapters.sqlserver.events.codec import codec_for
from adapters.sqlserver.events.decode import DecodedPart, Rules, Watch, decode
from adapters.sqlserver.log.entries import instance_of
from engine.events.values.row_form import RowMode
from tests.unit.adapters.sqlserver.changed import (
    AFTER,
    BEFORE,
    COMMITTED_MS,
    CUSTOMERS,
    DELETE,
    INSERT,
    PLAIN,
    Changed,
    lsn,
    raw,
    shown,
)

SETTINGS = replace(PLAIN, transaction_metadata=True)
ANN = ("1", "ann", "x")
LATER, LATER_MS = "2019-06-05 10:11:09.470", COMMITTED_MS + 1000


def decoded(*rows: Changed, before: OpenTransaction | None = None, settings=SETTINGS) -> DecodedPart:
    rules = Rules(settings, {0: instance_of(CUSTOMERS, codec_for(CUSTOMERS, settings), RowMode.FAST)})
    return decode([raw(rows)], rules, Watch(), 1, before)


def test_a_transaction_ends_with_the_next_ones_first_event_and_its_time():
    found = decoded(
        Changed(7, 1, INSERT, ANN), Changed(7, 2, DELETE, ANN), Changed(8, 1, INSERT, ANN, committed=LATER)
    )

    told = [event["value"] for event in shown(found.events) if event["topic"] == "server1.transaction"]
    name = "testDB.dbo.customers"
    assert told == [
        {
            "status": "BEGIN",
            "id": lsn(7),
            "event_count": None,
            "data_collections": None,
            "ts_ms": COMMITTED_MS,
        },
        {
            "status": "END",
            "id": lsn(7),
            "event_count": 2,
            "data_collections": [{"data_collection": name, "event_count": 2}],
            "ts_ms": LATER_MS,
        },
        {"status": "BEGIN", "id": lsn(8), "event_count": None, "data_collections": None, "ts_ms": LATER_MS},
    ]
    assert found.open == OpenTransaction(lsn(8), ((name, 1),))


def test_an_event_tells_its_transaction_and_its_order_there():
    found = decoded(Changed(7, 1, DELETE, ANN), Changed(7, 2, BEFORE, ANN), Changed(7, 2, AFTER, ANN))

    blocks = [
        event["value"]["transaction"]
        for event in shown(found.events)
        if event["value"] and "op" in event["value"]
    ]
    assert blocks == [
        {"id": lsn(7), "total_order": 1, "data_collection_order": 1},
        {"id": lsn(7), "total_order": 2, "data_collection_order": 2},
    ]


def test_a_transaction_left_open_goes_on_counting_and_is_ended_after_a_restart():
    before = OpenTransaction(lsn(7), (("testDB.dbo.customers", 4), ("testDB.dbo.orders", 1)))
    restored = from_json(orjson.loads(orjson.dumps(to_json(before))))

    on = decoded(Changed(7, 9, INSERT, ANN), before=restored)
    other = decoded(Changed(8, 1, INSERT, ANN), before=restored)

    assert restored == replace(before, restored=True)
    assert [event["value"]["transaction"]["total_order"] for event in shown(on.events)] == [6]
    assert on.open == OpenTransaction(lsn(7), (("testDB.dbo.customers", 5), ("testDB.dbo.orders", 1)))
    assert shown(other.events)[0]["value"]["event_count"] == 5
    assert shown(other.events)[0]["value"]["id"] == lsn(7)


def test_a_transaction_without_events_is_not_told_and_ends_none():
    before = OpenTransaction(lsn(6), (("testDB.dbo.customers", 1),))
    quiet = replace(SETTINGS, skipped_operations=frozenset("c"))

    found = decoded(Changed(7, 1, INSERT, ANN), before=before, settings=quiet)

    assert found.events.num_rows == 0
    assert found.open == before


def test_nothing_open_is_saved_as_nothing():
    assert to_json(None) is None
    assert from_json(None) is None
