"""Schemas that a `schema-changes` signal states: Debezium's own JSON is read, anything else is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.sqlserver.events.codecs import Codecs
from adapters.sqlserver.events.schema_changes import ChangeType, SchemaChange
from adapters.sqlserver.events.source_block import ReadPosition
from adapters.sqlserver.schema.history import FileStore, History, history_record
from adapters.sqlserver.schema.stated import StatedTable, stated_tables
from adapters.sqlserver.schema.tracker import SchemaTracker
from adapters.sqlserver.server.position import LogPosition
from adapters.sqlserver.server.table import Column, Table
from adapters.system import system_clock
from engine.errors import SignalError
from engine.model import CollectionId
from tests.unit.adapters.sqlserver.changed import CUSTOMERS, PLAIN, lsn

DATABASES = ("testDB", "otherDB")
WIDER = replace(CUSTOMERS, columns=(*CUSTOMERS.columns, Column("more", 4, "int")))


def entry(table: Table = CUSTOMERS, kind: ChangeType = ChangeType.ALTER) -> dict[str, Any]:
    """A table change as Debezium's schema history has it."""
    change = SchemaChange(kind, table, ReadPosition(1, lsn(7), snapshot="false"), 2)
    found: dict[str, Any] = orjson.loads(history_record(change, "server1"))["tableChanges"][0]
    return found


def data(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"database": "testDB", "schema": "dbo", "changes": list(entries), **more}


def test_a_record_of_the_history_is_read_as_the_table_that_it_was_made_of():
    found = stated_tables(data(entry(WIDER), entry(kind=ChangeType.DROP)), DATABASES)

    assert found == [
        StatedTable(ChangeType.ALTER, CUSTOMERS.id, WIDER),
        StatedTable(ChangeType.DROP, CUSTOMERS.id, None),
    ]


@pytest.mark.parametrize("name", ['"testDB"."dbo"."customers"', '"dbo"."customers"', "dbo.customers"])
def test_the_database_in_an_id_may_be_left_out(name: str):
    (found,) = stated_tables(data({**entry(), "id": name}), DATABASES)

    assert found.collection == CUSTOMERS.id


def test_a_name_may_have_dots_and_quotes():
    (found,) = stated_tables(data({**entry(), "id": '"dbo"."a.""b"""'}), DATABASES)

    assert found.collection == CollectionId(("testDB", "dbo", 'a."b"'))


def without(name: str) -> dict[str, Any]:
    table = {key: value for key, value in entry()["table"].items() if key != name}
    return {**entry(), "table": table}


@pytest.mark.parametrize(
    ("given_data", "said"),
    [
        ({}, "missing required field `database`"),
        ({"database": "testDB"}, "missing required field `changes`"),
        (data(), "'changes' has 0 entries"),
        (data(entry(), database="elsewhere"), "no database 'elsewhere'"),
        (data(entry(), database=1), r"Expected `str`, got `int` - at `\$.database`"),
        (data({**entry(), "type": "RENAME"}), "Invalid enum value 'RENAME'"),
        (data({**entry(), "id": "customers"}), "does not name schema and table"),
        (data({**entry(), "id": '"dbo".""'}), "does not name schema and table"),
        (data({**entry(), "id": '"otherDB"."dbo"."t"'}), "is of another database than 'testDB'"),
        (data({**entry(), "table": None}), "entry 1 of 'changes' has no columns"),
        (data(without("columns")), "missing required field `columns`"),
        (data({**entry(), "table": {**entry()["table"], "columns": []}}), "has no columns"),
        (
            data({**entry(), "table": {**entry()["table"], "primaryKeyColumnNames": ["gone"]}}),
            "entry 1 of 'changes' has no column 'gone'",
        ),
        (data(*[entry()] * 1001), "'changes' has 1001 entries"),
    ],
)
def test_what_can_not_be_read_is_refused_with_the_place(given_data: dict[str, Any], said: str):
    with pytest.raises(SignalError, match=said):
        stated_tables(given_data, DATABASES)


def test_a_column_named_twice_is_refused():
    twice = entry(replace(CUSTOMERS, columns=CUSTOMERS.columns[:1] * 2))

    with pytest.raises(SignalError, match="two columns of the same name"):
        stated_tables(data(twice), DATABASES)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["database", "changes", "type", "id", "table", "columns"]), inner)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["database", "schema", "changes"]), _JSON))
def test_no_data_causes_anything_but_a_refusal(drawn: dict[str, Any]):
    try:
        stated_tables({"database": "testDB", **drawn}, DATABASES)
    except SignalError:
        return


class TestTracked:
    def tracker(self, history: History | None = None) -> SchemaTracker:
        return SchemaTracker(cast("Any", None), Codecs(PLAIN), history, system_clock())

    def stated(self, tracker: SchemaTracker, *tables: StatedTable) -> list[SchemaChange]:
        return tracker.record_stated(tables, {"testDB": LogPosition(lsn(9))})

    def test_it_is_recorded_where_the_stream_stands(self, tmp_path):
        history = History(FileStore(tmp_path / "history"), "server1")
        tracker = self.tracker(history)

        (made,) = self.stated(tracker, StatedTable(ChangeType.ALTER, WIDER.id, WIDER))

        assert (made.type, made.table, made.position.commit) == (ChangeType.ALTER, WIDER, lsn(9))
        assert tracker.shapes == {WIDER.id: WIDER}
        assert history.recover({"testDB": LogPosition(lsn(8))}) == {}
        assert history.recover({"testDB": LogPosition(lsn(9))}) == {WIDER.id: WIDER}

    def test_a_drop_has_the_last_shape_and_needs_one(self):
        tracker = self.tracker()
        dropped = StatedTable(ChangeType.DROP, WIDER.id, None)
        with pytest.raises(SignalError, match=r"nothing is known of testDB\.dbo\.customers"):
            self.stated(tracker, dropped)
        self.stated(tracker, StatedTable(ChangeType.CREATE, WIDER.id, WIDER))

        (made,) = self.stated(tracker, dropped)

        assert made.table == WIDER
        assert tracker.shapes == {}
