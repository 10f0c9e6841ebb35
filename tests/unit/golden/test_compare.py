"""The comparer accepts what only a run's circumstances change, and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden.case import OWN_CASES, case_folders
from tests.golden.compare import difference
from tests.golden.event import Event
from tests.golden.values import event_difference
from tests.golden.windows import stale_read, without_windows
from tests.unit.golden.recorded import copied, recorded

STREAMED = ("a1_customers_default", "b1_pk_update", "f1_tx_metadata", "n5_defaults_null_schemaless")
INCREMENTAL = ("i1_incremental", "i4_incremental_txmeta", "j2_incremental_two_tables")


@pytest.mark.parametrize("name", [folder.name for folder in case_folders(OWN_CASES / "postgres")])
def test_every_recorded_case_equals_itself(name: str):
    case = recorded(name)

    assert difference(case, case.expected, copied(case.expected)) is None


@pytest.mark.parametrize("name", [*STREAMED, *INCREMENTAL])
@given(data=st.data())
def test_a_missing_event_is_found(name: str, data: st.DataObject):
    case = recorded(name)
    events = without_windows(case.expected)
    del events[data.draw(st.integers(0, len(events) - 1))]

    assert difference(case, case.expected, events) is not None


@pytest.mark.parametrize("name", [*STREAMED, *INCREMENTAL])
@given(data=st.data())
def test_a_doubled_event_is_found(name: str, data: st.DataObject):
    case = recorded(name)
    events = without_windows(case.expected)
    at = data.draw(st.integers(0, len(events) - 1))
    events.insert(at, events[at])

    assert difference(case, case.expected, events) is not None


@pytest.mark.parametrize("name", STREAMED)
@given(data=st.data())
def test_two_events_in_the_wrong_order_are_found(name: str, data: st.DataObject):
    case = recorded(name)
    events = copied(case.expected)
    at = data.draw(st.integers(1, len(events) - 1))
    events[at - 1], events[at] = events[at], events[at - 1]

    assert difference(case, case.expected, events) is not None


@pytest.mark.parametrize("name", STREAMED)
@given(data=st.data())
def test_any_other_value_in_any_place_is_found(name: str, data: st.DataObject):
    case = recorded(name)
    events = copied(case.expected)
    holder, place = data.draw(st.sampled_from([leaf for event in events for leaf in leaves(event)]))
    holder[place] = data.draw(st.sampled_from(others(holder[place])))

    assert difference(case, case.expected, events) is not None


def leaves(event: Event) -> list[tuple[Any, Any]]:
    """Every place of an event that holds neither object nor list: the container and its index."""
    found: list[tuple[Any, Any]] = []

    def visit(document: Any) -> None:
        places: Any = document if isinstance(document, dict) else range(len(document))
        for place in places:
            inner = document[place]
            if isinstance(inner, (dict, list)):
                visit(inner)
            else:
                found.append((document, place))

    for document in (event.key, event.value, *(header for _, header in event.headers)):
        if document is not None:
            visit(document)
    return found


def others(value: Any) -> list[Any]:
    """Values of another kind, which no mask may hide."""
    kinds: list[Any] = [None, [], {}, 0.5, not value]
    return [kind for kind in kinds if type(kind) is not type(value)]


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1, 1.0),
        (1, True),
        (0, False),
        (0.0, -0.0),
        (1, "1"),
        (None, "null"),
        (None, 0),
        ("", None),
        ([1, 2], [2, 1]),
        ([1], [1, 1]),
        ({"a": 1}, {"a": 1, "b": None}),
        (float("nan"), None),
    ],
)
def test_values_of_different_kinds_differ(expected: object, actual: object):
    assert event_difference(Event("t", None, expected), Event("t", None, actual)) is not None
    assert event_difference(Event("t", None, actual), Event("t", None, expected)) is not None


def test_the_order_of_fields_counts_in_a_schema_only():
    one = Event("t", None, {"schema": {"type": "int32", "optional": True}, "payload": {"a": 1, "b": 2}})
    same = Event("t", None, {"schema": {"type": "int32", "optional": True}, "payload": {"b": 2, "a": 1}})
    other = Event("t", None, {"schema": {"optional": True, "type": "int32"}, "payload": {"a": 1, "b": 2}})

    assert event_difference(one, same) is None
    assert event_difference(one, other) == (
        'value.schema (order of fields): expected ["type", "optional"], got ["optional", "type"]'
    )


def test_the_difference_names_its_place_and_both_values():
    case = recorded("a1_customers_default")
    events = copied(case.expected)
    events[1].value["payload"]["after"]["id"] = "1"

    assert difference(case, case.expected, events) == (
        f'event 2 of {len(events)}: value.payload.after.id: expected {events[0].body["after"]["id"]}, got "1"'
    )


def test_a_missing_event_is_named():
    case = recorded("b1_pk_update")
    events = copied(case.expected)
    lost = events.pop(1)

    found = difference(case, case.expected, events)

    assert found is not None
    assert f"missing {lost}" in found


def test_a_header_that_differs_is_found():
    case = recorded("b1_pk_update")
    at = next(number for number, event in enumerate(case.expected) if event.headers)
    events = copied(case.expected)
    events[at] = dataclasses.replace(events[at], headers=())

    found = difference(case, case.expected, events)

    assert found is not None
    assert "headers" in found


@pytest.mark.parametrize("name", INCREMENTAL)
def test_reads_may_come_in_another_order_and_windows_not_at_all(name: str):
    case = recorded(name)
    kept = without_windows(case.expected)
    reads = [event for event in kept if event.op == "r"]
    events = [event for event in kept if event.op != "r"] + reads[::-1]

    assert len(kept) < len(case.expected)
    assert difference(case, case.expected, events) is None


def test_a_read_with_another_value_is_shown_beside_the_expected_one():
    case = recorded("i1_incremental")
    events = copied(case.expected)
    read = next(event for event in events if event.op == "r")
    read.value["payload"]["after"]["email"] = "x"

    found = difference(case, case.expected, events)

    assert found is not None
    assert 'value.payload.after.email: expected "e1", got "x"' in found


def test_a_read_of_the_wrong_collection_is_found():
    case = recorded("j2_incremental_two_tables")
    events = copied(case.expected)
    at = next(number for number, event in enumerate(events) if event.op == "r")
    events[at] = dataclasses.replace(events[at], topic=f"{events[at].topic}_other")

    assert difference(case, case.expected, events) is not None


def test_in_i3_alone_one_recorded_read_may_be_absent():
    case = recorded("i1_incremental")
    events = copied(case.expected)
    reads = [event for event in events if event.op == "r"]
    i3 = dataclasses.replace(case, name="i3_incremental_update_before_window")

    assert difference(i3, case.expected, [event for event in events if event is not reads[0]]) is None
    assert difference(case, case.expected, [event for event in events if event is not reads[0]]) is not None
    assert difference(i3, case.expected, [event for event in events if event not in reads[:2]]) is not None
    assert difference(i3, case.expected, [*events, reads[0]]) is not None


def test_how_many_heartbeats_there_are_does_not_matter_but_that_there_are():
    case = recorded("q1_heartbeat")
    beats = [event for event in case.expected if "heartbeat" in event.topic]
    rest = [event for event in case.expected if "heartbeat" not in event.topic]

    assert difference(case, case.expected, [*beats, *rest, *beats]) is None
    assert difference(case, case.expected, rest) is not None


TRUNCATE = Event("t", None, {"op": "t", "source": {}})


def change(op: str, key: int, after: dict[str, Any] | None) -> Event:
    return Event("t", {"id": key}, {"op": op, "before": None, "after": after, "source": {}})


@pytest.mark.parametrize(
    ("events", "stale"),
    [
        ([change("r", 1, {"id": 1, "a": 1})], False),
        ([change("u", 1, {"id": 1, "a": 2}), change("r", 1, {"id": 1, "a": 2})], False),
        ([change("u", 1, {"id": 1, "a": 2}), change("r", 1, {"id": 1, "a": 1})], True),
        ([change("u", 1, {"id": 1, "a": 2}), change("r", 2, {"id": 2, "a": 1})], False),
        ([change("r", 1, {"id": 1, "a": 1}), change("u", 1, {"id": 1, "a": 2})], False),
        ([change("d", 1, None), change("r", 1, {"id": 1, "a": 1})], True),
        ([change("d", 1, None), change("c", 1, {"id": 1, "a": 1}), change("r", 1, {"id": 1, "a": 1})], False),
        (
            [
                change("c", 1, {"id": 1}),
                Event("t", None, {"op": "t", "source": {}}),
                change("r", 1, {"id": 1}),
            ],
            True,
        ),
        ([change("u", 1, {"a": "__debezium_unavailable_value"}), change("r", 1, {"a": "long"})], False),
    ],
)
def test_a_read_after_a_newer_change_of_its_key_is_found(events: list[Event], *, stale: bool):
    assert (stale_read(events) is not None) is stale
