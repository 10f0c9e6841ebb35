"""What an incremental snapshot of Debezium's has left, as entries of the queue."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from adapters.source.debezium.incremental import remaining
from engine.errors import StateError
from engine.model import CollectionId, Scope, Stretch, Target
from tests.unit.adapters.source.debezium.java_writer import NULL_KEY, ONE_AND_TWO, text_key

ORDERS, LINES = CollectionId(("public", "orders")), CollectionId(("public", "lines"))
LEFT = [
    {"incremental_snapshot_collections_id": "public.orders"},
    {
        "incremental_snapshot_collections_id": "public.lines",
        "incremental_snapshot_collections_additional_condition": "id > 5",
        "incremental_snapshot_collections_surrogate_key": "no",
    },
]


def named(text: str) -> CollectionId:
    return CollectionId(tuple(text.split(".")))


def offset(**more: Any) -> dict[str, Any]:
    return {"lsn": 1, "incremental_snapshot_collections": orjson.dumps(LEFT).decode(), **more}


def test_what_is_left_is_queued_in_order_and_goes_on_at_the_last_key():
    queue = remaining(
        offset(
            incremental_snapshot_primary_key=ONE_AND_TWO.hex(), incremental_snapshot_correlation_id="monday"
        ),
        named,
    )

    assert [table.target for table in queue.tables] == [
        Target(ORDERS, scope=Scope(stretches=(Stretch(("1", "2"), None),))),
        Target(LINES, "id > 5", "no"),
    ]
    assert {table.id for table in queue.tables} == {"monday"}


def test_a_key_may_be_in_base64():
    text = base64.b64encode(ONE_AND_TWO).decode()

    first, _second = remaining(offset(incremental_snapshot_primary_key=text), named).tables

    assert first.target.scope is not None


@pytest.mark.parametrize(
    "key", [None, NULL_KEY.hex(), text_key("a").hex(), "aced00", "no key", text_key("a").hex()[:-2]]
)
def test_a_key_that_is_not_certain_has_its_collection_read_from_the_beginning(key: str | None):
    first, _second = remaining(offset(incremental_snapshot_primary_key=key), named).tables

    assert first.target == Target(ORDERS)


def test_names_alone_are_read_as_old_versions_wrote_them():
    queue = remaining({"incremental_snapshot_collections": "public.orders,public.lines"}, named)

    assert [table.target.collection for table in queue.tables] == [ORDERS, LINES]


def test_without_a_snapshot_nothing_is_queued():
    assert remaining({"lsn": 1}, named).tables == ()


@pytest.mark.parametrize("text", ["5", "[1]", "{}", "[{}]"])
def test_what_can_not_be_read_is_refused(text: str):
    with pytest.raises(StateError):
        remaining({"incremental_snapshot_collections": text}, named)
