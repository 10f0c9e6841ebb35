"""The delete events of rows that only a copy has."""

from __future__ import annotations

import json

import pytest

from engine.events.record.envelope import delete_row_affixes
from engine.verify.deletes import DeleteEvents

SOURCE = '{"snapshot":"incremental"}'


def deletes(*, tombstones: bool = True, wrapped: bool = False) -> DeleteEvents:
    wrap = ('{"schema":{},"payload":', "}") if wrapped else ("", "")
    before, after = delete_row_affixes(SOURCE, 7)
    return DeleteEvents("shop.t", wrap, (wrap[0] + before, after + wrap[1]), ("id", "v"), tombstones)


def test_a_row_becomes_a_delete_and_its_tombstone():
    batch = deletes().batch([('{"id":1}', '{"id":1,"v":"é"}'), ('{"id":2}', None)])

    assert batch.column("topic").to_pylist() == ["shop.t"] * 4
    assert batch.column("key").to_pylist() == ['{"id":1}', '{"id":1}', '{"id":2}', '{"id":2}']
    first, tombstone, second, last = batch.column("value").to_pylist()
    event = {"before": {"id": 1, "v": "é"}, "after": None, "source": json.loads(SOURCE)}
    assert json.loads(first) == {**event, "op": "d", "ts_ms": 7, "transaction": None}
    assert (tombstone, last) == (None, None)
    assert json.loads(second)["before"] is None


@pytest.mark.parametrize(
    ("row", "before"),
    [
        ('{"v":1,"gone":2,"id":3}', {"id": 3, "v": 1}),
        ('{"id":3}', {"id": 3, "v": None}),
        ("[1]", None),
    ],
)
def test_a_row_has_the_columns_that_its_table_has_now(row, before):
    (value,) = deletes(tombstones=False).batch([('{"id":3}', row)]).column("value").to_pylist()

    assert json.loads(value)["before"] == before


def test_keys_and_values_have_their_schemas():
    batch = deletes(wrapped=True).batch([('{"id":1}', '{"id":1,"v":2}')])

    assert json.loads(batch.column("key")[0].as_py()) == {"schema": {}, "payload": {"id": 1}}
    assert json.loads(batch.column("value")[0].as_py())["payload"]["before"] == {"id": 1, "v": 2}
