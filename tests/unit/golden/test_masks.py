"""Masks hide what varies from run to run, and keep its shape."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.golden.compare import difference
from tests.golden.event import Event
from tests.golden.masks import Masks
from tests.unit.golden.recorded import copied, recorded


def at_another_time(event: Event, by_ms: int = 86_400_000_000) -> Event:
    """The event as another run would emit it: later, with other positions and transaction ids."""
    body = event.body
    if not isinstance(body, dict):
        return event
    if body.get("ts_ms") is not None:
        body["ts_ms"] += by_ms
    source = body.get("source")
    if source:
        source["ts_ms"] += by_ms
        source["version"] = "0.1.0"
        for name in ("lsn", "txId"):
            source[name] = None if source[name] is None else source[name] + 12_345
        source["sequence"] = source["sequence"].replace("1", "77")
    return event


@pytest.mark.parametrize("name", ["b1_pk_update", "e2_messages_txmeta", "i1_incremental"])
def test_another_run_at_another_time_compares_equal(name: str):
    case = recorded(name)

    assert (
        difference(case, case.expected, [at_another_time(event) for event in copied(case.expected)]) is None
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("source", "lsn"), None),
        (("source", "lsn"), "1"),
        (("source", "txId"), True),
        (("source", "xmin"), 5),
        (("source", "sequence"), '["1","2"]'),
        (("source", "sequence"), None),
        (("source", "ts_ms"), 1.5),
        (("source", "version"), None),
        (("source", "snapshot"), "true"),
        (("ts_ms",), None),
        (("transaction",), {"id": "1:2", "total_order": 1, "data_collection_order": 1}),
    ],
)
def test_a_mask_keeps_nulls_and_kinds(path: tuple[str, ...], value: object):
    case = recorded("a1_customers_default")
    events = copied(case.expected)
    holder: Any = events[0].body
    for name in path[:-1]:
        holder = holder[name]
    assert holder[path[-1]] != value
    holder[path[-1]] = value

    assert difference(case, case.expected, events) is not None


def test_transaction_ids_are_masked_and_counts_are_not():
    case = recorded("f1_tx_metadata")
    events = copied(case.expected)
    for event in events:
        if isinstance(event.body, dict) and event.body.get("transaction"):
            event.body["transaction"]["id"] = "4:5"
        if isinstance(event.body, dict) and "status" in event.body:
            event.body["id"] = event.key["payload"]["id"] = "4:5"

    assert difference(case, case.expected, events) is None

    ending = next(event for event in events if event.body and event.body.get("status") == "END")
    ending.body["event_count"] += 1

    assert difference(case, case.expected, events) is not None


def row(value: Any, ts_ms: int = 1_795_224_800_216) -> Event:
    return Event(
        "t", {"id": 1}, {"op": "c", "before": None, "after": {"a": value}, "source": {}, "ts_ms": ts_ms}
    )


NOW_MS = 1_795_224_800_216
CLOCK = Masks(clock=(NOW_MS - 1000, NOW_MS + 1000))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2026-11-21T01:33:20.528136Z", "2026-11-21T01:33:20.999999Z"),
        (NOW_MS, NOW_MS + 1),
        (NOW_MS * 1000, NOW_MS * 1000 + 1),
        (NOW_MS * 1_000_000, NOW_MS * 1_000_000 + 1),
    ],
)
def test_values_from_the_clock_are_masked(one: object, other: object):
    assert CLOCK.apply(row(one)) == CLOCK.apply(row(other))
    assert Masks().apply(row(one)) != Masks().apply(row(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2026-11-21T01:33:20.528136Z", "2026-11-21T01:33:20.528Z"),
        ("2026-11-21T01:33:20Z", "2020-11-21T01:33:20Z"),
        (NOW_MS, NOW_MS * 1000),
        (NOW_MS, "2026-11-21T01:33:20Z"),
        (5, 6),
    ],
)
def test_the_precision_of_a_clock_value_and_any_other_value_are_compared(one: object, other: object):
    assert CLOCK.apply(row(one)) != CLOCK.apply(row(other))


def test_random_uuids_are_masked_and_written_ones_are_not():
    masks = Masks(literal="INSERT INTO t VALUES ('11111111-1111-1111-1111-111111111111')")
    made, also_made = (row(f"fd060ab0-6500-4f21-909e-a8ef04eb7cd{digit}") for digit in "78")
    written = row("11111111-1111-1111-1111-111111111111")

    assert masks.apply(made) == masks.apply(also_made)
    assert masks.apply(made) != masks.apply(written)
    assert masks.apply(made) != masks.apply(row("00000000-0000-0000-0000-000000000000"))


def test_a_case_that_makes_times_and_uuids_compares_equal_to_another_run():
    case = recorded("n1_defaults_stream")
    events = copied(case.expected)
    events[0].body["after"].update(
        fn="2026-11-21T01:40:47.000001Z",
        fn_nn="2026-11-21T01:40:47.000001Z",
        ru="0d060ab0-6500-4f21-909e-a8ef04eb7cd7",
    )

    assert difference(case, case.expected, events) is None
    assert not dataclasses.replace(case, folder=case.folder.parent / "a1_customers_default").reads_clock
