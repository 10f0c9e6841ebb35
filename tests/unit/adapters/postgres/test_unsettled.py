"""Transactions streamed before they are visible: kept with their keys until a snapshot shows them."""

from __future__ import annotations

import orjson
import pyarrow as pa
import pytest

from adapters.postgres.touched import TOUCHED
from adapters.postgres.unsettled import Touches, Unsettled, from_json, superseding_rows, unsettled_rows
from adapters.postgres.visibility import Visibility

T, U = 16384, 16385
SNAPSHOT = Visibility.parse("10:20:14")
"""Shows 9 and 15; neither 14 nor 20."""


def touched(*rows: tuple[int, int, bytes]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]
    return pa.table(columns, schema=TOUCHED)


WAITING = Unsettled(
    {
        14: Touches({T: frozenset([b"1", b"2"])}),
        15: Touches({T: frozenset([b"3"]), U: frozenset([b"1"])}),
        20: Touches(truncated=frozenset([U])),
    }
)


def test_what_a_snapshot_shows_is_let_go():
    assert sorted(WAITING.seen(SNAPSHOT).transactions) == [14, 20]


def test_what_it_does_not_show_is_kept_as_it_was():
    assert WAITING.seen(SNAPSHOT).transactions[14] == WAITING.transactions[14]


def test_nothing_waiting_stays_nothing():
    assert Unsettled().seen(SNAPSHOT) == Unsettled()


def test_parts_of_a_transaction_add_up():
    both = Unsettled().add_keys(touched((T, 14, b"1"), (U, 14, b"1"), (T, 14, b"2"), (T, 15, b"9")))
    both = both.add(14, Touches(truncated=frozenset([U])))

    assert both.transactions == {
        14: Touches({T: frozenset([b"1", b"2"]), U: frozenset([b"1"])}, frozenset([U])),
        15: Touches({T: frozenset([b"9"])}),
    }


@pytest.mark.parametrize(
    ("oid", "keys", "truncated"), [(T, [b"1", b"2", b"3"], False), (U, [b"1"], True), (7, [], False)]
)
def test_a_relation_s_keys_are_those_of_every_transaction(oid, keys, truncated):
    assert (WAITING.keys_of(oid).to_pylist(), WAITING.truncated(oid)) == (keys, truncated)


def test_its_size_is_the_keys_held():
    assert (WAITING.size, Unsettled().size) == (4, 0)


def test_it_comes_back_from_a_saved_state():
    odd = WAITING.add(21, Touches({T: frozenset([b"\xff\x00", b""])}))

    assert from_json(orjson.loads(orjson.dumps(odd.to_json()))) == odd
    assert from_json(()) == Unsettled()


ROWS = touched((T, 9, b"1"), (T, 14, b"2"), (U, 14, b"3"), (T, 15, b"4"), (T, 20, b"5"))


def test_rows_of_hidden_transactions_wait():
    assert unsettled_rows(ROWS, SNAPSHOT).column("key").to_pylist() == [b"2", b"3", b"5"]
    assert unsettled_rows(touched(), SNAPSHOT).num_rows == 0


@pytest.mark.parametrize(("oid", "expected"), [(T, [b"2", b"5"]), (U, [b"3"]), (7, [])])
def test_a_window_s_rows_are_superseded_by_what_its_snapshot_hides(oid, expected):
    assert superseding_rows(ROWS, oid, SNAPSHOT).to_pylist() == expected


def test_no_entries_supersede_nothing():
    assert superseding_rows(touched(), T, SNAPSHOT).to_pylist() == []
