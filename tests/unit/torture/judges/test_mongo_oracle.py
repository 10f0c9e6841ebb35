"""The judge of documents sees what a wrong job would do; so these tests are wrong jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64

from tests.torture.aside import Aside
from tests.torture.documents import key_of, number_of, row
from tests.torture.emitted import Emitted
from tests.torture.mongo_oracle import DROPPED, HIDDEN, RENAMED, DocumentOracle
from tests.torture.oracle import Table, Violation
from tests.torture.truth import UNCHANGED, Entry

if TYPE_CHECKING:
    from tests.torture.truth import Row

T, U = "shop.t0", "shop.t1"
DESCRIBED = {"removedFields": None, "updatedFields": '{"v": "b", "list.1": "y"}', "truncatedArrays": None}


def doc(value: str, **more: Any) -> Row:
    return row({"_id": 1, "v": value, **more})


def oracle(*rows: Row, looks_up: bool = True) -> DocumentOracle:
    found = DocumentOracle(looks_up=looks_up)
    for name in (T, U):
        found.tables[name] = Table(name, ("_id",), {})
    found.tables[T].start(rows)
    return found


def changed(op: str, new: Row | None = None, at: int = 1, name: str = T) -> Entry:
    old: Row = {} if op == "c" else {"_id": key_of(1)}
    return Entry(at, op, (name,), old=old, new=new or {})


def event(op: str, after: Row | None = None, at: int = 1, described: Any = None, name: str = T) -> Emitted:
    image = None if op == "d" else after or {"_id": key_of(1)}
    return Emitted(1, name, op, {"_id": key_of(1)}, image, at, described=described)


def read(image: Row, name: str = T) -> Emitted:
    return Emitted(1, name, "r", {"_id": key_of(1)}, image, None)


def test_ids_are_told_apart_as_events_keys_are():
    assert key_of(1) == key_of(Int64(1))
    ids = (
        1,
        1.0,
        Decimal128("1"),
        Decimal128("1.0"),
        "1",
        True,
        None,
        {"a": 1},
        {"a": 1.0},
        Decimal128("NaN"),
    )
    assert len({key_of(identifier) for identifier in ids}) == len(ids)


def test_ids_that_the_server_takes_for_equal_are_one_number():
    assert number_of(1) == number_of(1.0) == number_of(Int64(1)) == number_of(Decimal128("1.0"))
    assert len({number_of(key) for key in (1, "1", True, None, {"a": 1}, Decimal128("NaN"))}) == 6
    assert number_of({"a": 1}) == number_of({"a": 1.0})


def test_a_document_looked_up_may_be_of_a_later_change():
    judge = oracle(doc("a"))
    judge.follow(
        [changed("u", doc("b")), changed("u", doc("c"), 2)],
        [event("u", doc("c"), described=DESCRIBED), event("u", doc("c"), 2, DESCRIBED)],
    )

    judge.settle(T, [doc("c")])


def test_a_document_looked_up_is_never_of_an_earlier_one():
    judge = oracle(doc("a"))
    with pytest.raises(Violation, match="emitted was"):
        judge.follow([changed("u", doc("b"))], [event("u", doc("a"), described=DESCRIBED)])


def test_a_replacement_brings_its_own_document():
    judge = oracle(doc("a"))
    with pytest.raises(Violation, match="emitted was"):
        judge.follow([changed("u", doc("b")), changed("u", doc("c"), 2)], [event("u", doc("c"))])


def test_a_document_is_missing_only_where_it_goes_later():
    entries = [changed("u", doc("b")), changed("d", at=2)]
    oracle(doc("a")).follow(entries, [event("u", described=DESCRIBED), event("d", at=2)])

    with pytest.raises(Violation, match="emitted was None"):
        oracle(doc("a")).follow(entries[:1], [event("u", described=DESCRIBED)])


def test_a_wrong_image_from_before_is_seen():
    wrong = Emitted(1, T, "u", doc("z"), doc("b"), 1)
    with pytest.raises(Violation, match="before is"):
        oracle(doc("a")).follow([changed("u", doc("b"))], [wrong])


def test_without_looking_up_a_consumer_goes_by_the_description():
    judge = oracle(looks_up=False)
    made = [changed("c", doc("a", list=["x"])), changed("u", doc("b", list=["x", "y"]), 2)]
    judge.follow(made, [event("c", doc("a", list=["x"])), event("u", None, 2, DESCRIBED)])

    judge.settle(T, [doc("b", list=["x", "y"])])


def test_an_update_of_a_document_that_nobody_sent_leaves_it_unknown():
    judge = oracle(doc("a"), looks_up=False)
    judge.follow([changed("u", doc("b"))], [event("u", None, 1, DESCRIBED)])

    assert judge.tables[T].copy[(key_of(1),)]["doc"] == UNCHANGED
    judge.tables[T].whole = True
    judge.settle(T, [doc("b")])
    judge.tables[T].finished.add((1, 2))
    with pytest.raises(Violation, match="nobody has sent"):
        judge.settle(T, [doc("b")])


def test_a_read_after_a_drop_is_one_too_many():
    judge = oracle(doc("a"))
    judge.follow(
        [Entry(1, DROPPED, (T,)), changed("c", doc("n"), 2)], [read(doc("a")), event("c", doc("n"), 2)]
    )
    with pytest.raises(Violation):
        judge.take_in(read(doc("a")))


def test_documents_come_along_with_a_rename():
    judge = oracle(doc("a"))
    judge.follow(
        [Entry(1, HIDDEN, ("shop.new",), new=doc("h")), Entry(2, RENAMED, ("shop.new", T))], [read(doc("h"))]
    )

    judge.settle(T, [doc("h")])
    assert judge.left() == []


def test_what_goes_before_its_collection_comes_in_does_not_come_along():
    judge = oracle(doc("a"))
    hidden = [
        Entry(1, HIDDEN, ("shop.new",), new=doc("h")),
        Entry(2, HIDDEN, ("shop.new",), old={"_id": key_of(1)}),
    ]
    judge.follow([*hidden, Entry(3, RENAMED, ("shop.new", T))], [])

    assert judge.left() == []
    judge.settle(T, [])


def test_a_document_is_looked_up_where_its_collection_has_gone():
    judge = oracle(doc("a"))
    judge.follow(
        [changed("u", doc("b")), Entry(2, RENAMED, (T, U)), changed("u", doc("c"), 3, U)],
        [event("u", doc("c"), described=DESCRIBED), event("u", doc("c"), 3, DESCRIBED, U)],
    )

    judge.settle(U, [doc("c")])


def test_changes_that_no_event_tells_of_are_left():
    judge = oracle(doc("a"))
    judge.follow([changed("u", doc("b")), Entry(2, DROPPED, (T,))], [])

    assert [entry.op for entry in judge.left()] == ["u", DROPPED]


# Collections that the job sets aside.


def aside(*turns: tuple[int, list[str], list[str]]) -> Aside:
    """Turns one after the other: where each ended, what was set aside behind it, and what was incomplete."""
    notes = [
        {"turn": number, "position": [end], "aside": bad, "incomplete": lacking, "letters": {}}
        for number, (end, bad, lacking) in enumerate(turns, 1)
    ]
    return Aside.of(notes, lambda position: int(position[0]))


def test_of_a_collection_that_is_set_aside_no_event_need_tell():
    judge = oracle(doc("a"))
    judge.aside, judge.incomplete = aside((1, [], []), (2, [T], [T])), frozenset([T])
    judge.follow([changed("u", doc("b"), 2), changed("c", doc("n"), 3, U)], [event("c", doc("n"), 3, name=U)])

    assert judge.left() == []
    judge.tables[T].whole = True
    judge.settle(T, [doc("b")])


def test_of_any_other_collection_they_must():
    judge = oracle(doc("a"))
    judge.aside = aside((2, [U], [U]))
    judge.follow([changed("u", doc("b"), 2)], [])

    assert [entry.op for entry in judge.left()] == ["u"]


def test_before_it_is_set_aside_they_must():
    judge = oracle(doc("a"))
    judge.aside = aside((2, [], []), (3, [T], [T]))
    judge.follow([changed("u", doc("b"), 1), changed("u", doc("c"), 3)], [])

    assert [entry.transaction for entry in judge.left()] == [1, 3]


def test_a_snapshot_that_ends_has_brought_what_went_by_before_it():
    judge = oracle(doc("a"))
    judge.aside = aside((2, [T], [T]), (3, [], [T]), (4, [], []))
    judge.follow([changed("u", doc("b"), 2)], [])
    assert judge.left() == []
    table = judge.tables[T]
    table.copy = {(key_of(1),): {"_id": key_of(1), "doc": UNCHANGED}}
    table.whole, table.finished = True, {(3, 4)}

    with pytest.raises(Violation, match="nobody has sent"):
        judge.settle(T, [doc("b")])


def test_a_read_shows_what_went_by_while_its_collection_was_set_aside():
    judge = oracle(doc("a"))
    judge.aside = aside((2, [T], [T]), (3, [], [T]), (4, [], []))
    judge.follow([changed("u", doc("b"), 2)], [read(doc("b"))])

    table = judge.tables[T]
    table.whole, table.finished = True, {(3, 4)}
    assert judge.left() == []
    judge.settle(T, [doc("b")])


def test_what_is_taken_up_must_be_told_of_again():
    judge = oracle(doc("a"))
    judge.aside = aside((2, [T], [T]), (3, [], [T]), (5, [], [T]))
    judge.follow([changed("u", doc("b"), 4)], [])

    assert [entry.transaction for entry in judge.left()] == [4]


def test_a_document_deleted_while_its_collection_is_set_aside_may_stay_with_consumers():
    judge = oracle(doc("a"))
    judge.aside = aside((2, [T], [T]))
    judge.follow([changed("d", at=2)], [])

    assert judge.left() == []
    judge.settle(T, [])


def test_an_event_that_comes_all_the_same_is_taken_for_its_change():
    # A part of a cluster time may be told of, and the rest not.
    judge = oracle(doc("a"))
    judge.aside = aside((2, [], []), (2, [T], [T]))
    judge.follow([changed("u", doc("b"), 2)], [event("u", doc("b"), 2, DESCRIBED)])

    assert judge.left() == []
    assert judge.happened["changes of collections set aside"] == 0


def test_what_was_set_aside_and_completed_is_counted():
    found = aside(
        (1, [], []), (2, [T], [T]), (3, [T, U], [T, U]), (4, [U], [T, U]), (5, [U], [U]), (6, [], [])
    )

    assert (found.begun, found.ended) == (2, 2)
    assert found.ever == {T, U}


def test_a_turn_that_nobody_could_tell_of_may_have_ended_it():
    notes = [
        {"turn": 1, "position": [1], "aside": [], "incomplete": [], "letters": {}},
        {"turn": 3, "position": [3], "aside": [], "incomplete": [T], "letters": {}},
    ]
    found = Aside.of(notes, lambda position: int(position[0]))

    assert found.turn_of(T, 2) == 3
    assert found.turn_of(U, 2) is None


def test_a_collection_that_is_taken_up_in_the_turn_that_set_it_aside_is_known_by_its_letters():
    notes = [
        {"turn": 1, "position": [10], "aside": [], "incomplete": [T], "letters": {}},
        {"turn": 2, "position": [20], "aside": [], "incomplete": [T], "letters": {T: 2}},
        {"turn": 3, "position": [30], "aside": [], "incomplete": [T], "letters": {T: 2}},
        {"turn": 4, "position": [40], "aside": [], "incomplete": [], "letters": {}},
    ]
    found = Aside.of(notes, lambda position: int(position[0]))

    assert [found.turn_of(T, place) for place in (5, 15, 25)] == [None, 2, None]
    assert (found.begun, found.ended) == (1, 1)


def test_a_document_that_a_drop_left_behind_is_deleted_by_a_repair_alone():
    judge = oracle(doc("a"))
    judge.follow([Entry(1, DROPPED, (T,))], [])
    assert judge.left() == []
    judge.strangers = {(T, (key_of(1),))}

    judge.follow([], [event("d")])

    assert judge.strangers == set()
    with pytest.raises(Violation, match="not in the log"):
        judge.follow([], [event("d")])
