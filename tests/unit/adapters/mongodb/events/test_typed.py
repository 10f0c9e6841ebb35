"""Typed change events hold what the records hold."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from engine.events.batch import EventForm
from tests.typed_records import parsed, records
from tests.unit.adapters.mongodb.events.test_decode import OTHERS, change, decoded, update

CHANGES = (
    change("insert", fullDocument={"_id": 1, "t": 'a "b" é\n', "n": [1, {"m": 2.5}]}),
    change("insert", 7, ns=OTHERS, fullDocument={"_id": 7}),
    update({"t": "b"}, fullDocument={"_id": 1, "t": "b"}),
    update({"a.0": 1}, fullDocument=None),
    change("replace", fullDocument={"_id": 1.0, "t": "c"}),
    change("delete", 1.0),
)


@pytest.mark.parametrize("schemas", [False, True])
@pytest.mark.parametrize("metadata", [False, True])
def test_columns_are_the_records(metadata, schemas):
    settings: dict[str, Any] = {"transaction_metadata": metadata}
    wanted = parsed(decoded(*CHANGES, **settings).events)
    enabled = {"key_schemas": schemas, "value_schemas": schemas}
    found = decoded(*CHANGES, **settings, **enabled, form=EventForm.COLUMNS)
    for topic in ("tm.shop.t", "tm.shop.u"):
        assert [record for record in records(found.columns) if record["topic"] == topic] == [
            collection for collection in wanted if collection["topic"] == topic
        ]
    assert found.events.num_rows == 0


def test_events_of_collections_are_in_the_order_of_the_stream():
    found = decoded(*CHANGES, form=EventForm.COLUMNS)
    first, second = (batch.column("order").to_pylist() for batch in found.columns)

    assert first[0] < second[0] < first[1]
    assert sorted(first) == first
    assert found.columns[0].schema.field("after").type == pa.large_string()
    assert found.columns[0].column("op").to_pylist() == ["c", "u", "u", "d", None, "u", "d", None]
