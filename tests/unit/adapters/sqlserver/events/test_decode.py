"""Change rows become the events that they mean, in the order of the log, whole or in parts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.sqlserver.events.codec import codec_for
from adapters.sqlserver.events.decode import DecodedPart, Rules, Watch, decode
from adapters.sqlserver.events.schema_changes import ChangeType, SchemaChange
from adapters.sqlserver.events.source_block import ReadPosition
from adapters.sqlserver.log.entries import instance_of
from adapters.sqlserver.server.position import LogPosition
from adapters.sqlserver.server.table import Column, Table
from engine.events.batch import EVENTS
from engine.events.counts import EventCounts
from engine.events.settings import EventSettings
from engine.events.values.row_form import RowMode
from engine.events.values.row_texts import SeparatorInData
from engine.model import CollectionId, SignalRow
from engine.snapshot.merge_key import merge_keys_of
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

NOW = 1559729471739
ORDERS = Table(CollectionId(("testDB", "dbo", "orders")), (Column("id", 1, "int", nullable=False),), ("id",))
TABLES = (CUSTOMERS, ORDERS)
ANN, BOB = ("1", "ann", "x"), ("1", "bob", "x")


def rules(
    settings: EventSettings = PLAIN, mode: RowMode = RowMode.FAST, tables=TABLES, clock: int = 0, **codec
) -> Rules:
    made = {
        at: instance_of(table, codec_for(table, settings, **codec), mode) for at, table in enumerate(tables)
    }
    return Rules(settings, made, clock)


def decoded(*rows: Changed, **how) -> DecodedPart:
    watch = how.pop("watch", Watch())
    before, changes = how.pop("before", None), how.pop("changes", ())
    batch = raw(rows, how.get("tables", TABLES), how.get("mode", RowMode.FAST))
    return decode([batch], rules(**how), watch, NOW, before, changes)


def ops(found: DecodedPart) -> list[tuple[str | None, object]]:
    return [(event["value"] and event["value"]["op"], event["key"]) for event in shown(found.events)]


def test_an_insert_is_a_create_with_its_place_and_time():
    (event,) = shown(decoded(Changed(7, 3, INSERT, ANN)).events)

    assert event["topic"] == "server1.testDB.dbo.customers"
    assert event["key"] == {"id": 1}
    assert event["headers"] is None
    assert event["value"] == {
        "before": None,
        "after": {"id": 1, "name": "ann", "note": "x"},
        "source": {
            "version": "2.1.4.Final",
            "connector": "sqlserver",
            "name": "server1",
            "ts_ms": COMMITTED_MS,
            "snapshot": "false",
            "db": "testDB",
            "sequence": None,
            "schema": "dbo",
            "table": "customers",
            "change_lsn": lsn(3),
            "commit_lsn": lsn(7),
            "event_serial_no": 1,
        },
        "op": "c",
        "ts_ms": NOW,
        "transaction": None,
    }


def test_an_update_is_put_together_from_its_two_rows():
    found = decoded(Changed(7, 3, BEFORE, ANN), Changed(7, 3, AFTER, BOB))

    (event,) = shown(found.events)
    assert event["value"]["op"] == "u"
    assert (event["value"]["before"]["name"], event["value"]["after"]["name"]) == ("ann", "bob")
    assert event["value"]["source"]["event_serial_no"] == 2


def test_a_delete_is_followed_by_a_tombstone_unless_none_is_wanted():
    row = Changed(7, 3, DELETE, ANN)

    assert ops(decoded(row)) == [("d", {"id": 1}), (None, {"id": 1})]
    assert ops(decoded(row, settings=replace(PLAIN, tombstones=False))) == [("d", {"id": 1})]


def test_a_changed_primary_key_is_a_delete_and_a_create_that_count_on():
    found = decoded(Changed(7, 3, DELETE, ANN), Changed(7, 3, INSERT, ("2", "ann", "x")))

    assert ops(found) == [("d", {"id": 1}), (None, {"id": 1}), ("c", {"id": 2})]
    serials = [event["value"]["source"]["event_serial_no"] for event in shown(found.events) if event["value"]]
    assert serials == [1, 2]


def test_an_update_that_changes_the_events_key_is_a_delete_and_a_create_with_headers():
    settings = replace(PLAIN, message_keys=(r"dbo\.customers.name",))

    events = shown(decoded(Changed(7, 3, BEFORE, ANN), Changed(7, 3, AFTER, BOB), settings=settings).events)

    assert [(event["value"] and event["value"]["op"], event["key"]) for event in events] == [
        ("d", {"name": "ann"}),
        (None, {"name": "ann"}),
        ("c", {"name": "bob"}),
    ]
    assert [event["headers"][0]["key"] for event in events] == [
        "__debezium.newkey",
        "__debezium.newkey",
        "__debezium.oldkey",
    ]
    assert events[0]["headers"][0]["value"] == '{"name":"bob"}'


def test_rows_of_several_tables_come_in_the_order_of_the_log():
    rows = [
        Changed(7, 1, INSERT, ANN),
        Changed(8, 1, BEFORE, ANN),
        Changed(8, 1, AFTER, BOB),
        Changed(7, 2, INSERT, ("5",), instance=1),
        Changed(8, 2, DELETE, ("5",), instance=1),
    ]
    events = shown(decoded(*rows).events)

    assert [
        (event["topic"].rsplit(".", 1)[1], event["value"] and event["value"]["op"]) for event in events
    ] == [
        ("customers", "c"),
        ("orders", "c"),
        ("customers", "u"),
        ("orders", "d"),
        ("orders", None),
    ]
    assert decoded(*rows).counts == EventCounts(2, 1, 1, 0, 2)


def test_skipped_operations_and_tables_that_are_not_emitted_tell_nothing():
    rows = [Changed(7, 1, INSERT, ANN), Changed(7, 2, DELETE, ANN)]

    assert ops(decoded(*rows, settings=replace(PLAIN, skipped_operations=frozenset("d")))) == [
        ("c", {"id": 1})
    ]
    assert decoded(*rows, emit=False).events.num_rows == 0


def test_rows_of_an_instance_that_nobody_knows_are_passed_over():
    found = decoded(Changed(7, 1, INSERT, ("5",), instance=1), tables=TABLES)
    unknown = decode(
        [raw([Changed(7, 1, INSERT, ("5",), 1)], TABLES)], rules(tables=(CUSTOMERS,)), Watch(), NOW
    )

    assert found.events.num_rows == 1
    assert (unknown.events.num_rows, unknown.entries) == (0, 1)


def test_no_rows_are_no_events():
    found = decode([], rules(), Watch(), NOW)

    assert found.events.schema == EVENTS
    assert (found.events.num_rows, found.entries, found.open) == (0, 0, None)


def test_half_an_update_is_a_fault_of_its_table_alone():
    rows = (
        (Changed(7, 3, BEFORE, ANN),),
        (Changed(7, 3, AFTER, ANN),),
        (Changed(7, 3, BEFORE, ANN), Changed(7, 4, AFTER, ANN)),
    )
    for halves in rows:
        found = decoded(*halves, Changed(7, 5, INSERT, ("2",), 1))

        assert found.faults.keys() == {CUSTOMERS.id}
        assert "one of its two rows" in found.faults[CUSTOMERS.id]
        assert [event["key"] for event in shown(found.events)] == [{"id": 2}]


def test_a_large_value_that_an_update_left_alone_is_in_the_old_row_too():
    before, after = ("1", "ann", None), ("1", "bob", "long")

    (event,) = shown(decoded(Changed(7, 3, BEFORE, before), Changed(7, 3, AFTER, after)).events)

    assert event["value"]["before"] == {"id": 1, "name": "ann", "note": "long"}


def test_a_commits_time_is_by_the_servers_clock_unless_the_server_has_forgotten_it():
    (event,) = shown(decoded(Changed(7, 3, INSERT, ANN), clock=120).events)
    (forgotten,) = shown(decoded(Changed(7, 3, INSERT, ANN, committed=None), clock=120).events)

    assert event["value"]["source"]["ts_ms"] == COMMITTED_MS - 7_200_000
    assert forgotten["value"]["source"]["ts_ms"] == NOW


def test_a_value_with_the_separator_asks_for_the_other_form_and_is_read_there():
    odd = Changed(7, 3, INSERT, ("1", "a\x1fb\\s", "\\b"))

    with pytest.raises(SeparatorInData):
        decoded(odd)

    (event,) = shown(decoded(odd, mode=RowMode.ESCAPED).events)
    assert event["value"]["after"] == {"id": 1, "name": "a\x1fb\\s", "note": "\\b"}


def test_rows_inserted_into_the_signal_table_are_signals_by_name_or_by_place():
    named = Table(
        CollectionId(("testDB", "dbo", "signals")),
        (Column("data", 1, "nvarchar", -1), Column("type", 2, "varchar", 32), Column("id", 3, "varchar", 42)),
    )
    placed = replace(named, columns=tuple(Column(f"c{at}", at, "varchar", 99) for at in range(1, 4)))
    settings = replace(PLAIN, signal_collection="testDB.dbo.signals")
    rows = [Changed(7, 4, INSERT, ("{}", "log", None)), Changed(7, 3, DELETE, ("a", "b", "c"))]

    assert decoded(*rows, settings=settings, tables=(named,)).signals == (
        SignalRow(f"testDB:{LogPosition(lsn(7), 4, lsn(4), INSERT)}", None, "log", "{}"),
    )
    assert decoded(*rows, settings=settings, tables=(placed,)).signals == (
        SignalRow(f"testDB:{LogPosition(lsn(7), 4, lsn(4), INSERT)}", "{}", "log", None),
    )


def test_every_row_of_the_windows_tables_supersedes_and_none_of_others():
    rows = [
        Changed(6, 9, INSERT, ("1", "a", "")),
        Changed(7, 1, DELETE, ("2", "a", "")),
        Changed(7, 1, INSERT, ("3", "a", "")),
        Changed(8, 1, BEFORE, ("4", "a", "")),
        Changed(8, 1, AFTER, ("4", "b", "")),
        Changed(8, 2, INSERT, ("5",), instance=1),
    ]
    tables = frozenset({CUSTOMERS.id})

    arrays = decoded(*rows, watch=Watch(tables)).superseded.keys

    assert arrays.keys() == tables
    keys = {key for found in arrays[CUSTOMERS.id] for key in found.to_pylist()}
    assert keys == set(merge_keys_of([("1",), ("2",), ("3",), ("4",)]))
    assert decoded(*rows, watch=Watch(tables), emit=False).superseded.keys.keys() == tables
    assert not decoded(*rows).superseded.keys


def test_a_schema_change_is_told_before_the_first_row_of_its_commit():
    change = SchemaChange(ChangeType.ALTER, ORDERS, ReadPosition(5, lsn(8), snapshot="false"), NOW)
    late = replace(change, position=ReadPosition(5, lsn(9), snapshot="false"))
    settings = replace(PLAIN, transaction_metadata=True)
    rows = [Changed(7, 1, INSERT, ANN), Changed(8, 1, DELETE, ANN)]

    topics = decoded(*rows, changes=[late, change], settings=settings).events.column("topic").to_pylist()

    assert [topic.removeprefix("server1").split(".")[-1] for topic in topics] == [
        *("transaction", "customers"),
        *("", "transaction", "transaction", "customers", "customers"),
        "",
    ]


ROWS = st.lists(
    st.tuples(st.integers(1, 5), st.integers(0, 1), st.sampled_from("cud"), st.integers(0, 3)), max_size=12
)


@given(ROWS, st.integers(1, 5), st.booleans())
def test_parts_give_the_events_of_the_whole(drawn, cut, metadata):
    settings = replace(PLAIN, transaction_metadata=metadata, skipped_operations=frozenset("u"))
    rows = [row for number, key in enumerate(sorted(drawn), 1) for row in changed(key, number)]
    first, second = [r for r in rows if r.commit <= cut], [r for r in rows if r.commit > cut]

    whole = decoded(*rows, settings=settings)
    one = decoded(*first, settings=settings)
    two = decoded(*reversed(second), settings=settings, before=one.open)

    assert shown(one.events) + shown(two.events) == shown(whole.events)
    assert two.open == whole.open


def changed(drawn: tuple[int, int, str, int], number: int) -> list[Changed]:
    commit, instance, op, key = drawn
    values = (str(key), "n", "x")[: 1 if instance else 3]
    operations = {"c": (INSERT,), "d": (DELETE,), "u": (BEFORE, AFTER)}[op]
    return [Changed(commit, number, operation, values, instance) for operation in operations]


SHIFTED = [
    (1, 1, 1, 1, 1),
    (2, 2, 1, 2, 2),
    (3, 3, 1, 3, 3),
    (4, 1, 2, 2, 1),
    (5, 2, 2, 3, 2),
    (6, 3, 2, 4, 3),
]
SWAPPED = [(1, 9, 1, 7, 20), (2, 8, 2, 7, 16)]
NUMBERS = Table(
    CollectionId(("testDB", "dbo", "numbers")),
    (Column("id", 1, "int", nullable=False), Column("u", 2, "int", nullable=False)),
    ("id",),
)


def numbered(rows: list[tuple[int, int, int, int, int]], settings: EventSettings = PLAIN) -> DecodedPart:
    """Rows of one commit, written as command, change, operation, id and u, in the order of their changes."""
    changed = [
        Changed(7, change, operation, (str(key), str(unique)), command=command)
        for command, change, operation, key, unique in sorted(rows, key=lambda row: row[1])
    ]
    return decoded(*changed, tables=(NUMBERS,), settings=settings)


@pytest.mark.parametrize(("rows", "left"), [(SHIFTED, {2: 1, 3: 2, 4: 3}), (SWAPPED, {7: 16})])
def test_changes_of_a_transaction_are_told_in_the_order_of_their_commands(
    rows: list[tuple[int, int, int, int, int]], left: dict[int, int]
):
    there: dict[int, int] = {}
    serials = []
    for event in shown(numbered(rows, replace(PLAIN, tombstones=False)).events):
        serials.append(event["value"]["source"]["event_serial_no"])
        there.pop(event["key"]["id"], None)
        if event["value"]["op"] == "c":
            there[event["key"]["id"]] = event["value"]["after"]["u"]

    assert there == left
    assert serials == [1] * len(rows)


def test_the_events_of_a_transaction_are_counted_in_the_order_of_their_commands():
    settings = replace(PLAIN, transaction_metadata=True, tombstones=False)
    events = [event for event in shown(numbered(SHIFTED, settings).events) if "op" in event["value"]]

    told = [
        (event["value"]["transaction"]["total_order"], event["value"]["op"], event["key"]["id"])
        for event in events
    ]
    assert told == [(1, "d", 1), (2, "d", 2), (3, "d", 3), (4, "c", 2), (5, "c", 3), (6, "c", 4)]


def test_rows_of_one_change_are_counted_on_though_they_have_commands_of_their_own():
    events = shown(numbered([(4, 1, 1, 1, 1), (5, 1, 2, 2, 1)], replace(PLAIN, tombstones=False)).events)

    assert [event["value"]["source"]["event_serial_no"] for event in events] == [1, 2]
