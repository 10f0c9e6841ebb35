"""Parts of the log to events: order, counters, keys, and any split into parts."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.postgres.events.codec import codec_for
from adapters.postgres.events.decode import decode
from adapters.postgres.events.source_block import Moment
from adapters.postgres.log.pending_visibility import PendingVisibility
from adapters.postgres.log.pgoutput import parse_relation
from adapters.postgres.log.timeline import SpanPart, TransactionContext
from adapters.postgres.log.touched_keys import Watch
from adapters.postgres.server.table import Column, Table, relation_of
from adapters.postgres.server.visibility import Visibility
from adapters.postgres.snapshot.superseded_keys import update_pending
from engine.errors import SourceError
from engine.events.batch import EVENTS
from engine.events.counts import EventCounts, sum_counts
from engine.events.settings import EventSettings
from engine.model import CollectionId, SignalRow
from engine.snapshot.merge_key import merge_keys
from tests.unit.adapters.postgres.messages import UNCHANGED, Log

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.postgres.events.decode import DecodedPart

PLAIN = EventSettings("p", "d", key_schemas=False, value_schemas=False, skipped_operations=frozenset())
ORDERS, LINES, SIGNALS, OTHER = 1, 2, 3, 4


def table(
    oid: int, name: str, *columns: Column, key: tuple[str, ...] = ("id",), identity: str = "d"
) -> Table:
    return Table(oid, CollectionId(("s", name)), "r", columns, key, identity=identity, identity_key=key)


TABLES = {
    ORDERS: table(ORDERS, "orders", Column("id", 23, nullable=False), Column("note", 25), Column("n", 23)),
    LINES: table(
        LINES,
        "lines",
        Column("id", 23, nullable=False),
        Column("at", 25, nullable=False),
        Column("big", 25),
        key=("at", "id"),
        identity="f",
    ),
    SIGNALS: table(SIGNALS, "signals", *(Column(name, 25) for name in ("id", "type", "data"))),
}


def codecs(config: EventSettings = PLAIN) -> dict[int, Any]:
    return {oid: codec_for(relation_of(entry), entry, config, {}) for oid, entry in TABLES.items()}


def run(
    log: Log, config: EventSettings = PLAIN, watch: Watch | None = None, most: int = 10_000
) -> list[DecodedPart]:
    """Decode in parts of at most `most` messages."""
    made, context, known = [], TransactionContext(), codecs(config)
    for start in range(0, len(log.messages), most):
        part = SpanPart(pa.array(log.messages[start : start + most], pa.large_binary()), context)
        made.append(decode(part, known, config, watch or Watch(), Moment(7)))
        context = made[-1].context
    return made


def events(decoded: list[DecodedPart]) -> list[dict[str, Any]]:
    return [row for part in decoded for row in part.events.to_pylist()]


def brief(decoded: list[DecodedPart]) -> list[str]:
    """`op key` of every event, `- key` of a tombstone."""
    lines = []
    for event in events(decoded):
        key = event["key"]
        lines.append(f"- {key}" if event["value"] is None else f"{json.loads(event['value'])['op']} {key}")
    return lines


def test_an_empty_part_has_no_events():
    decoded = run(Log(messages=[]), most=1)
    nothing = decode(
        SpanPart(pa.array([], pa.large_binary()), TransactionContext(last_commit_end=5)),
        {},
        PLAIN,
        Watch(),
        Moment(0),
    )

    assert decoded == []
    assert (nothing.events.num_rows, nothing.events.schema) == (0, EVENTS)
    assert nothing.context == TransactionContext(last_commit_end=5)


def test_transactions_that_no_snapshot_shows_are_remembered_even_if_they_only_insert():
    log = Log()
    for xid in (14, 15):
        log.begin(xid)
        log.insert(ORDERS, xid, "a", None)
        log.commit()

    pending = update_pending(PendingVisibility(), run(log, most=2), Visibility.parse("10:20:14"))

    assert (pending.others, pending.transactions) == (frozenset({14}), {})


def test_events_of_several_tables_and_kinds_keep_the_order_of_the_log():
    log = Log()
    log.begin(7)
    log.insert(ORDERS, 1, "a", None)
    log.insert(LINES, 1, "x", None)
    log.update(ORDERS, (1, "b", 2))
    log.update(ORDERS, (2, "b", 2), (1, None, None))
    log.insert(OTHER, "not captured")
    log.delete(LINES, (1, "x", None), "O")
    log.truncate(LINES, OTHER, ORDERS)
    log.insert(ORDERS, 3, None, None)
    log.commit()

    assert brief(run(log)) == [
        'c {"id":1}',
        'c {"at":"x","id":1}',
        'u {"id":1}',
        'd {"id":1}',
        '- {"id":1}',
        'c {"id":2}',
        'd {"at":"x","id":1}',
        '- {"at":"x","id":1}',
        "t None",
        "t None",
        'c {"id":3}',
    ]
    assert sum_counts(part.counts for part in run(log)) == EventCounts(4, 1, 2, 2, 1, 7)


def test_a_key_change_carries_each_key_in_the_others_header():
    log = Log()
    log.begin(7)
    log.update(ORDERS, (2, "b", 2), (1, None, None))
    log.commit()

    headers = [json.loads(event["headers"]) for event in events(run(log))]
    assert headers == [
        [{"key": "__debezium.newkey", "value": '{"id":2}'}],
        [{"key": "__debezium.newkey", "value": '{"id":2}'}],
        [{"key": "__debezium.oldkey", "value": '{"id":1}'}],
    ]


@pytest.mark.parametrize(
    ("skipped", "left"),
    [("c", ["d", "-"]), ("d", ["c"]), ("u", ["d", "-", "c"])],
)
def test_a_skipped_operation_drops_its_half_of_a_key_change(skipped, left):
    log = Log()
    log.begin(7)
    log.update(ORDERS, (2, "b", 2), (1, None, None))
    log.commit()
    config = EventSettings(
        "p", "d", key_schemas=False, value_schemas=False, skipped_operations=frozenset({skipped})
    )

    assert [line.split(" ")[0] for line in brief(run(log, config))] == left


def test_positions_count_entries_of_every_relation_over_parts():
    log = Log()
    log.begin(7)
    log.insert(OTHER, "x")
    log.truncate(OTHER)
    log.message("m", b"")
    log.insert(SIGNALS, "a", "execute-snapshot", "{}")
    log.insert(SIGNALS, "a", None, None)
    log.commit()
    config = replace(PLAIN, signal_collection="s.signals")
    for most in (1, 2, 3, 100):
        signals = [signal for part in run(log, config, most=most) for signal in part.signals]

        commit = signals[0].position_label.rpartition("/")[0]
        assert signals == [
            SignalRow(f"{commit}/3", "a", "execute-snapshot", "{}"),
            SignalRow(f"{commit}/4", "a", None, None),
        ]


def test_only_inserted_rows_are_signals_and_deleted_ones_are_told_apart():
    log = Log()
    log.begin(7)
    log.insert(SIGNALS, "a", "log", "{}")
    log.update(SIGNALS, ("a", "log", "[]"))
    log.delete(SIGNALS, ("a", None, None))
    log.commit()
    (decoded,) = run(log, replace(PLAIN, signal_collection="s.signals"))

    assert [signal.data for signal in decoded.signals] == ["{}"]
    assert decoded.signals_deleted == ("a",)


def test_unchanged_values_are_filled_from_a_full_old_row_or_reported():
    log = Log()
    log.begin(7)
    log.update(LINES, (1, "x", UNCHANGED), (1, "x", "big"), "O")
    log.update(ORDERS, (1, UNCHANGED, 5))
    log.commit()
    decoded = run(log, watch=Watch(frozenset({LINES, ORDERS})))
    rows = [json.loads(event["value"])["after"] for event in events(decoded)]

    assert rows == [
        {"id": 1, "at": "x", "big": "big"},
        {"id": 1, "note": "__debezium_unavailable_value", "n": 5},
    ]
    assert decoded[0].incomplete["oid"].to_pylist() == [ORDERS]
    assert decoded[0].incomplete["xid"].to_pylist() == [7]


def test_an_unchanged_key_that_only_the_old_tuple_holds_is_no_key_change():
    log = Log()
    log.begin(1)
    log.update(ORDERS, (UNCHANGED, UNCHANGED, "5"), old=("7", None, None))
    log.commit()

    (event,) = events(run(log))

    value = json.loads(event["value"])
    assert json.loads(event["key"]) == {"id": 7}
    assert value["op"] == "u"
    assert value["after"] == {"id": 7, "note": "__debezium_unavailable_value", "n": 5}


def test_only_watched_entries_are_touched_and_filters_do_not_matter():
    log = Log()
    for xid in (7, 8):
        log.begin(xid)
        log.update(ORDERS, (xid, None, None))
        log.update(LINES, (xid, "y", None), (xid, "x", None), "O")
        log.delete(ORDERS, (xid + 10, None, None))
        log.insert(ORDERS, xid + 20, None, None)
        log.commit()
    config = EventSettings("p", "d", skipped_operations=frozenset("cud"))

    def touched(watch: Watch) -> list[tuple[int, int, bytes]]:
        found = run(log, config, watch)[0].touched
        return sorted(zip(*(found[name].to_pylist() for name in ("oid", "xid", "key")), strict=True))

    def key(*texts: str) -> bytes:
        (made,) = merge_keys([pa.array([text]) for text in texts]).to_pylist()
        return bytes(made)

    assert touched(Watch()) == []
    window = Watch(frozenset({ORDERS}), contained=lambda xids: xids < 8)
    assert touched(window) == [(ORDERS, 8, key("8")), (ORDERS, 8, key("18"))]
    late = Watch(settled=lambda xids: xids != 7)
    assert touched(late) == [(ORDERS, 7, key("7")), (ORDERS, 7, key("17")), (LINES, 7, key("x", "7"))]


def test_rows_of_another_width_are_their_tables_fault_alone():
    log = Log()
    log.begin(7)
    log.insert(ORDERS, 1, "a")
    log.insert(LINES, 1, "x", None)
    log.commit()
    (found,) = run(log)

    assert list(found.faults) == [ORDERS]
    assert "not as many columns" in found.faults[ORDERS]
    assert found.events.num_rows == 1


def test_the_engines_own_messages_are_no_events():
    log = Log()
    log.message("tidemark", b"", transactional=False)
    log.message("tidemark", b"something", transactional=False)

    assert len(events(run(log))) == 1


def test_a_codec_survives_the_way_to_an_executor():
    log = Log()
    log.begin(7)
    log.insert(ORDERS, 1, 'q"', 3)
    log.commit()
    carried = pickle.loads(pickle.dumps(codecs()))  # noqa: S301 our own value
    part = SpanPart(pa.array(log.messages, pa.large_binary()), TransactionContext())

    assert decode(part, carried, PLAIN, Watch(), Moment(7)).events == run(log)[0].events


def test_relation_messages_are_read():
    payload = b"R\0\0\0\x05s\0t\0f\0\x02\x01id\0\0\0\0\x17\xff\xff\xff\xff\0\xc3\xa9\0\0\0\x06\xa4\0\0\0\x0e"
    relation = parse_relation(payload)

    assert (relation.oid, str(relation.id), relation.identity) == (5, "s.t", "f")
    assert [(column.name, column.type, column.typmod, column.key) for column in relation.columns] == [
        ("id", 23, -1, True),
        ("é", 1700, 14, False),
    ]
    with pytest.raises(SourceError):
        parse_relation(b"I")


TEXT = st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
NUMBER = st.integers(0, 3)
ENTRY = st.one_of(
    st.tuples(st.just("insert"), NUMBER, TEXT),
    st.tuples(st.just("update"), NUMBER, TEXT | st.just(UNCHANGED)),
    st.tuples(st.just("move"), NUMBER, TEXT),
    st.tuples(st.just("full"), NUMBER, TEXT | st.just(UNCHANGED)),
    st.tuples(st.just("delete"), NUMBER, TEXT),
    st.tuples(st.just("truncate"), NUMBER, TEXT),
    st.tuples(st.just("message"), NUMBER, TEXT),
    st.tuples(st.just("loose"), NUMBER, TEXT),
)


def written(transactions: list[list[tuple[str, int, Any]]]) -> Log:
    log = Log()
    writers: dict[str, Callable[[int, Any], None]] = {
        "insert": lambda number, text: log.insert(ORDERS, number, text, None),
        "update": lambda number, text: log.update(ORDERS, (number, text, 1)),
        "move": lambda number, text: log.update(ORDERS, (number + 10, text, 1), (number, None, None)),
        "full": lambda number, text: log.update(LINES, (number, "x", text), (number, "x", "old"), "O"),
        "delete": lambda number, text: log.delete(LINES, (number, "x", text), "O"),
        "truncate": lambda _, __: log.truncate(ORDERS, LINES),
        "message": lambda _, __: log.message("m", b""),
    }
    for xid, entries in enumerate(transactions, 1):
        for text in (text for kind, _, text in entries if kind == "loose"):
            log.message("m", str(text).encode(), transactional=False)
        log.begin(xid)
        for kind, number, text in entries:
            if kind in writers:
                writers[kind](number, text)
        log.commit()
    return log


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(ENTRY, max_size=6), max_size=4), st.booleans(), st.integers(1, 7))
def test_any_split_into_parts_gives_the_same_events_keys_and_context(transactions, metadata, most):
    log = written(transactions)
    config = EventSettings("p", "d", transaction_metadata=metadata, skipped_operations=frozenset())
    watch = Watch(frozenset({ORDERS, LINES}), settled=lambda xids: np.ones(len(xids), bool))
    whole, parts = run(log, config, watch), run(log, config, watch, most)

    assert events(whole) == events(parts)
    assert [part.context for part in whole][-1:] == [part.context for part in parts][-1:]
    for name in ("touched", "incomplete"):
        keys = [
            sorted(key for part in side for key in getattr(part, name)["key"].to_pylist())
            for side in (whole, parts)
        ]
        assert keys[0] == keys[1]
    assert sum(part.entries for part in whole) == sum(part.entries for part in parts)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(ENTRY, max_size=6), max_size=4))
def test_metadata_counts_are_those_of_the_events(transactions):
    log = written(transactions)
    config = EventSettings(
        "p",
        "d",
        key_schemas=False,
        value_schemas=False,
        transaction_metadata=True,
        skipped_operations=frozenset(),
    )
    seen: list[int] = []
    by_table: dict[str, int] = {}
    for event in events(run(log, config)):
        value = json.loads(event["value"]) if event["value"] else {}
        if value.get("status") == "BEGIN":
            seen, by_table = [], {}
        elif value.get("status") == "END":
            assert value["event_count"] == len(seen)
            counts = {
                data_collection["data_collection"]: data_collection["event_count"]
                for data_collection in value["data_collections"]
            }
            assert counts == by_table
        elif value.get("transaction"):
            name = f"s.{value['source']['table']}"
            by_table[name] = by_table.get(name, 0) + 1
            seen.append(value["transaction"]["total_order"])
            assert seen[-1] == len(seen)
            assert value["transaction"]["data_collection_order"] == by_table[name]
            assert value["transaction"]["id"] == f"{value['source']['txId']}:{value['source']['lsn']}"


def sources(log: Log, moment: Moment) -> list[dict[str, Any]]:
    part = SpanPart(pa.array(log.messages, pa.large_binary()), TransactionContext())
    made = events([decode(part, codecs(), PLAIN, Watch(), moment)])
    return [json.loads(event["value"])["source"] for event in made if event["value"]]


def test_the_slots_xmin_stands_in_the_source_of_events_and_messages():
    log = Log()
    log.begin(7)
    log.insert(ORDERS, 1, "a", 3)
    log.message("here", b"x")
    log.commit()

    assert [source["xmin"] for source in sources(log, Moment(5, xmin=740))] == [740, 740]
    assert [source["xmin"] for source in sources(log, Moment(5))] == [None, None]


def test_a_message_before_any_transaction_has_the_time_of_now():
    log = Log()
    log.message("here", b"x", transactional=False)

    (source,) = sources(log, Moment(1234))
    assert (source["ts_ms"], source["txId"]) == (1234, None)
