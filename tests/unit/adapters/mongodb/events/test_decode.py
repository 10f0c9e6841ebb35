"""Change events that need more than their own words: respelt ids, drops, renames, what lacks a document."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import bson
import orjson
import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.regex import Regex
from bson.timestamp import Timestamp

from adapters.mongodb.documents import extended_json
from adapters.mongodb.documents.bson_walk import Kind, fields
from adapters.mongodb.documents.selection import FieldRules
from adapters.mongodb.events import unreported_changes
from adapters.mongodb.events.change_event import signal_of
from adapters.mongodb.events.codec import Rules
from adapters.mongodb.events.dead_letters import letters_of
from adapters.mongodb.events.decode import decode
from adapters.mongodb.events.facts import DecodedPart, Lack, LeftOut, Watch
from engine.config.sources.selection import CaptureSettings
from engine.events.counts import EventCounts
from engine.events.settings import EventSettings
from engine.isolation.incomplete import Cause
from engine.model import CollectionId, SignalRow
from engine.snapshot.merge_key import key_of

T, U = CollectionId(("shop", "t")), CollectionId(("shop", "u"))
NS, OTHERS = {"db": "shop", "coll": "t"}, {"db": "shop", "coll": "u"}
Event = tuple[Any, Any]


def change(operation: str, key: Any = 1, *, second: int = 5, **more: Any) -> bytes:
    keyed = {} if operation in {"drop", "rename", "dropDatabase"} else {"documentKey": {"_id": key}}
    event = {
        "_id": {"_data": "82"},
        "operationType": operation,
        "clusterTime": Timestamp(second, 1),
        "ns": NS,
        **keyed,
        **more,
    }
    return bson.encode({name: value for name, value in event.items() if value is not ...})


def update(fields: Mapping[str, Any], key: Any = 1, **more: Any) -> bytes:
    described = {"updatedFields": fields, "removedFields": [], "truncatedArrays": []}
    return change("update", key, updateDescription=described, **more)


NOTHING_OPEN = Watch()


def decoded(*changes: bytes, watch: Watch = NOTHING_OPEN, **settings: Any) -> DecodedPart:
    settings = {"key_schemas": False, "value_schemas": False, **settings}
    rules = Rules(EventSettings("tm", "", **settings), CaptureSettings(), "rs0", FieldRules())
    return decode(changes, rules, watch, 0)


def told(found: DecodedPart) -> list[Event]:
    """Keys and operations of the events; None for a tombstone."""
    return [
        (orjson.loads(row["key"])["id"], orjson.loads(row["value"])["op"] if row["value"] else None)
        for row in found.events.to_pylist()
    ]


@pytest.mark.parametrize(
    "document",
    [
        {"_id": "s1", "type": "stop-snapshot", "data": {"data-collections": ["shop.a"]}},
        {"_id": "s1", "type": "stop-snapshot", "payload": {"data-collections": ["shop.a"]}},
        {"_id": "s1", "type": "stop-snapshot", "data": {"data-collections": ["shop.a"]}, "by": "anna"},
        {"_id": "s1", "by": "anna", "data": {"data-collections": ["shop.a"]}, "type": "stop-snapshot"},
    ],
    ids=["three fields", "by their places", "one more at the end", "one more, in another order"],
)
def test_a_signal_keeps_its_data_whatever_else_its_document_has(document: dict[str, Any]):
    raw = change("insert", "s1", fullDocument=document)

    assert signal_of(raw, fields(raw)) == SignalRow(
        "82", "s1", "stop-snapshot", '{"data-collections": ["shop.a"]}'
    )


def test_a_signal_may_lack_its_data():
    raw = change("insert", "s1", fullDocument={"_id": "s1", "type": "stop-snapshot"})

    assert signal_of(raw, fields(raw)) == SignalRow("82", "s1", "stop-snapshot", None)


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (1, 1.0, "1.0"),
        (1.0, Int64(1), "1"),
        (1, Decimal128("1.0"), '{"$numberDecimal": "1.0"}'),
        ({"a": 1}, {"a": 1.0}, '{"a": 1.0}'),
    ],
    ids=str,
)
def test_a_document_whose_id_is_written_otherwise_ends_under_the_old_key(before: Any, after: Any, shown: str):
    found = decoded(change("replace", before, fullDocument={"_id": after, "x": 1}))
    (old, d), tombstone, new = told(found)

    assert (d, tombstone) == ("d", (old, None))
    assert new == (shown, "u")
    assert old != shown or isinstance(after, Int64)


def test_an_update_by_a_pipeline_may_respell_an_id_too():
    assert told(decoded(update({"_id": 1.0, "sub_id": 2}))) == [("1", "d"), ("1", None), ("1.0", "u")]
    assert told(decoded(update({"sub_id": 2, "sub": {"_id": 3}}))) == [("1", "u")]
    assert decoded(update({"_id": 1.0, "sub_id": 2})).counts == EventCounts(updates=1, deletes=1)


def test_a_respelt_document_that_did_not_come_is_lacking():
    respelt = decoded(update({"_id": 1.0}), update({"_id": 2.0}, 2, fullDocument={"_id": 2.0}))
    gone = decoded(update({"_id": 1.0}, fullDocument=None))

    assert respelt.left_out == (LeftOut(T, "1.0", "update", (5, 1), Lack.RESPELT),)
    assert gone.left_out == ()  # its end comes under the new key


@pytest.mark.parametrize("after", [1, Int64(1)], ids=["the same bytes", "an integer of 64 bits"])
def test_an_id_that_keys_write_as_before_has_one_event(after: Any):
    assert told(decoded(change("replace", fullDocument={"_id": after, "x": 1}))) == [("1", "u")]
    assert told(decoded(update({"_id": after}))) == [("1", "u")]


def test_where_deletes_are_skipped_the_old_key_is_not_told_of():
    found = decoded(change("replace", fullDocument={"_id": 1.0}), skipped_operations=frozenset("d"))

    assert told(found) == [("1.0", "u")]


def test_where_updates_are_skipped_a_respelt_document_moves_to_its_new_key():
    def with_skipped(operations: str, *changes: bytes) -> DecodedPart:
        return decoded(*changes, skipped_operations=frozenset(operations))

    replaced = change("replace", fullDocument={"_id": 1.0, "x": 1}, fullDocumentBeforeChange={"_id": 1})
    moved = with_skipped("u", replaced)
    assert told(moved) == [("1", "d"), ("1", None), ("1.0", "c")]
    created = orjson.loads(moved.events.to_pylist()[2]["value"])
    assert (created["before"], created["after"]) == (None, '{"_id": 1.0,"x": 1}')
    assert told(with_skipped("u", update({"_id": 1.0}, fullDocument={"_id": 1.0})))[2:] == [("1.0", "c")]
    assert told(with_skipped("uc", replaced)) == [("1", "d"), ("1", None)]
    assert told(with_skipped("ud", replaced)) == [("1.0", "c")]
    assert told(with_skipped("u", change("replace", fullDocument={"_id": 1, "x": 1}))) == []

    lacking = with_skipped("u", update({"_id": 1.0}))
    assert told(lacking) == [("1", "d"), ("1", None)]
    assert lacking.left_out == (LeftOut(T, "1.0", "update", (5, 1), Lack.RESPELT),)


# Superseding.


WATCH = Watch(frozenset({T}), ((4, 0),))


@pytest.mark.parametrize(
    "raw",
    [
        update({"n": 1}),
        update({"n": 1}, fullDocument=None),
        change("replace"),
        change("insert"),
    ],
    ids=["not looked up", "gone when it was looked up", "stripped replacement", "stripped insert"],
)
def test_whatever_has_no_document_must_be_read_again(raw: bytes):
    found = decoded(raw, watch=WATCH).superseded[4, 0]

    assert [key_of(key) for key in found.keys[T][0].to_pylist()] == [("1",)]
    assert [key_of(after) for _before, after in found.lacking[T]] == [("1",)]


@pytest.mark.parametrize(
    "raw",
    [update({"n": 1}, fullDocument={"_id": 1}), change("delete"), change("insert", fullDocument={"_id": 1})],
)
def test_what_has_its_document_or_none_is_not_read_again(raw: bytes):
    found = decoded(raw, watch=WATCH).superseded[4, 0]

    assert list(found.keys) == [T]
    assert not found.lacking


def test_what_was_stripped_of_all_is_left_out_and_named():
    found = decoded(change("insert", "large"), change("update", "larger"), change("delete", 3))

    assert [row[0] for row in told(found)] == ["3", "3"]
    assert found.left_out == (
        LeftOut(T, '"large"', "insert", (5, 1)),
        LeftOut(T, '"larger"', "update", (5, 1)),
    )


def test_what_was_stripped_of_all_is_not_left_out_where_no_event_would_tell_of_it():
    found = decoded(change("insert", "large"), change("update", "larger"), skipped_operations=frozenset("u"))

    assert found.left_out == (LeftOut(T, '"large"', "insert", (5, 1)),)


# Drops and renames.


def emptied(*changes: bytes) -> Any:
    return decoded(*changes).emptied


def test_drops_and_renames_are_noted_whatever_is_watched():
    drop, rename = emptied(change("drop"), change("rename", second=6, to={"db": "shop", "coll": "u"}))

    assert drop.among([T, U]) == {T}
    assert rename.among([T, U]) == {T, U}
    assert unreported_changes.replaced_collections([drop, rename]) == {U: (6, 1)}
    assert unreported_changes.unsent([drop]) == {T}
    assert unreported_changes.unsent([rename]) == {T, U}


def test_a_database_s_end_empties_its_collections_and_an_invalidation_all():
    (database,) = emptied(change("dropDatabase", ns={"db": "shop"}))
    (all_of_them,) = emptied(change("invalidate", ns=...))
    other = CollectionId(("other", "t"))

    assert database.among([T, other]) == {T}
    assert all_of_them.among([T, other]) == {T, other}


def test_what_consumers_keep_is_said_of_captured_collections():
    drop, rename, database = emptied(
        change("drop"),
        change("rename", to={"db": "shop", "coll": "u"}),
        change("dropDatabase", ns={"db": "shop"}),
    )
    said = [
        unreported_changes.removal_message(changed, lambda name: name == T)
        for changed in (drop, rename, database)
    ]

    kept = "at Timestamp(5, 1): the log has no deletes of its documents, so consumers keep them"
    assert said == [f"shop.t was dropped {kept}", f"shop.t was renamed to shop.u {kept}", ""]
    assert unreported_changes.removal_message(drop, lambda _name: False) == ""


def test_what_was_renamed_onto_or_left_out_of_is_incomplete():
    (rename,) = emptied(change("rename", to={"db": "shop", "coll": "u"}))
    left_out = decoded(change("insert", "large", second=7)).left_out
    found = unreported_changes.incomplete([rename], left_out, lambda _name: True)

    assert [(entry.collection, entry.cause, entry.since) for entry in found] == [
        (U, Cause.GAP, "Timestamp(5, 1)"),
        (T, Cause.GAP, "Timestamp(7, 1)"),
    ]
    assert unreported_changes.incomplete([rename], (), lambda name: name == T) == ()


def test_of_what_is_left_out_a_line_is_kept_that_names_it():
    left_out = decoded(change("insert", "large"), change("update", 7)).left_out
    kept = unreported_changes.letters(left_out)[T]

    assert (kept.count, kept.size) == (2, sum(map(len, kept.lines())))
    assert [orjson.loads(line) for line in kept.lines()] == [
        {"position": "Timestamp(5, 1)", "operation": "insert", "id": '"large"'},
        {"position": "Timestamp(5, 1)", "operation": "update", "id": "7"},
    ]


# What can't be decoded.


BAD = Regex("a value of the row")


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regular expressions are of a type that nobody knows."""

    def fails(*_value: object) -> str:
        raise LookupError(BAD.pattern)

    writers = list(extended_json._WRITERS)
    writers[Kind.REGEX] = fails
    monkeypatch.setattr(extended_json, "_WRITERS", writers)


@pytest.mark.usefixtures("unknown")
@pytest.mark.parametrize(
    "bad",
    [
        change("insert", fullDocument={"_id": 1, "x": BAD}),
        change("delete", {"x": BAD}),
        update({"x": BAD}),
        change("replace", fullDocument={"_id": 1}, fullDocumentBeforeChange={"_id": 1, "x": BAD}),
    ],
    ids=["a document", "an id", "updated fields", "an image"],
)
def test_what_can_not_be_decoded_is_a_fault_of_its_collection_alone(bad: bytes):
    other = [change("insert", n, ns=OTHERS, fullDocument={"_id": n, "x": "é"}) for n in range(2)]
    found = decoded(other[0], bad, change("insert", 3, fullDocument={"_id": 3}), other[1])
    sound = decoded(*other)
    documents = [orjson.loads(row["value"])["after"] for row in sound.events.to_pylist()]
    told_of = [orjson.loads(row["value"])["after"] for row in found.events.to_pylist() if "u" in row["topic"]]

    assert found.faults.keys() == {T}
    assert "LookupError" in found.faults[T]
    assert BAD.pattern not in found.faults[T]
    assert told_of == documents
    assert not sound.faults


@pytest.mark.usefixtures("unknown")
def test_a_window_is_told_of_what_it_does_not_contain_alone():
    # Another one may contain a rename after this change, whose documents are in no event.
    changes = [change("replace", fullDocument={"_id": 1}), change("delete", second=6)]
    found = decoded(*changes, watch=Watch(frozenset({T}), ((4, 0), (5, 1)))).superseded

    assert {after: [len(keys) for keys in lost.keys.get(T, ())] for after, lost in found.items()} == {
        (4, 0): [2],
        (5, 1): [1],
    }


def test_changes_of_a_collection_that_is_set_aside_are_not_looked_at_but_its_drop_is():
    bad = change("insert", {"x": BAD}, fullDocument={"_id": 1, "x": BAD})
    changes = [bad, change("drop"), change("insert", ns=OTHERS, fullDocument={"_id": 1})]
    rules = Rules(
        EventSettings("tm", "", key_schemas=False, value_schemas=False),
        CaptureSettings(),
        "rs0",
        FieldRules(),
        aside=frozenset({T}),
    )
    found = decode(changes, rules, Watch(frozenset({T, U}), ((4, 0),)), 0)

    assert not found.faults
    assert told(found) == [("1", "c")]
    assert found.superseded[4, 0].keys.keys() == {U}
    assert [emptying.collection for emptying in found.emptied] == [T]


@pytest.mark.usefixtures("unknown")
def test_a_fault_of_a_collection_that_nobody_captures_is_none():
    capture = CaptureSettings(include_tables=(r"shop\.u",))
    rules = Rules(
        EventSettings("tm", "", key_schemas=False, value_schemas=False), capture, "rs0", FieldRules()
    )
    bad = change("insert", fullDocument={"_id": 1, "x": BAD})
    found = decode([bad, change("insert", ns=OTHERS, fullDocument={"_id": 1})], rules, NOTHING_OPEN, 0)

    assert not found.faults
    assert told(found) == [("1", "c")]


def test_a_dead_letter_holds_the_event_as_it_came():
    session: dict[str, Any] = {"lsid": {"id": 7}, "txnNumber": Int64(3)}
    kept = [change("insert", {"x": BAD}, **session), change("delete", second=6)]
    others = [change("insert", ns=OTHERS), change("drop")]
    (found,) = letters_of([kept[0], *others, kept[1]], {T}).items()
    lines = [orjson.loads(line) for line in found[1].lines()]

    assert (found[0], found[1].count) == (T, 2)
    assert [base64.b64decode(line["message"]) for line in lines] == kept
    assert [(line["position"], line["operation"]) for line in lines] == [
        ("Timestamp(5, 1)", "insert"),
        ("Timestamp(6, 1)", "delete"),
    ]
    assert [line["transaction"] for line in lines] == ['{"id": 7}:3', None]
    assert sum(map(len, found[1].lines())) <= found[1].size
