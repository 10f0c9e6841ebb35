"""Transactions streamed before they are visible: kept with their keys until a snapshot shows them."""

from __future__ import annotations

import orjson
import pyarrow as pa
import pytest

from adapters.postgres.log import pending_visibility
from adapters.postgres.log.pending_visibility import KEPT_KEYS, PendingVisibility, Touches, from_json
from adapters.postgres.log.touched_keys import COUNTED, LACKING, TOUCHED
from adapters.postgres.log.unseen_rows import moved_keys, pending_rows, superseding_rows
from adapters.postgres.server.visibility import Visibility
from engine.snapshot.merge_key import KEY_TYPE

T, U = 16384, 16385
SNAPSHOT = Visibility.parse("10:20:14")
"""Shows 9 and 15; neither 14 nor 20."""


def touched(*rows: tuple[int, int, bytes]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]
    return pa.table(columns, schema=TOUCHED)


def lacking(*rows: tuple[int, int, bytes, bytes | None]) -> pa.Table:
    """Rows `(oid, xid, key, old key)`; those with another key have moved."""
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], [], []]
    return pa.table([*columns, [key != old for _oid, _xid, key, old in rows]], schema=LACKING)


def keys(*found: bytes) -> pa.LargeBinaryArray:
    return pa.array(found, KEY_TYPE)


def many(count: int, oid: int = T, xid: int = 14) -> pa.Table:
    texts = pa.array(range(count)).cast(pa.large_string()).cast(KEY_TYPE)
    return pa.table([pa.repeat(oid, count), pa.repeat(xid, count), texts], schema=TOUCHED)


WAITING = PendingVisibility(
    {
        14: Touches({T: keys(b"1", b"2")}),
        15: Touches({T: keys(b"3"), U: keys(b"1")}),
        20: Touches(truncated=frozenset([U])),
    }
)


def test_what_a_snapshot_shows_is_let_go():
    assert sorted(WAITING.without_visible(SNAPSHOT).transactions) == [14, 20]


def test_what_it_does_not_show_is_kept_as_it_was():
    assert WAITING.without_visible(SNAPSHOT).transactions[14] == WAITING.transactions[14]


def test_nothing_waiting_stays_nothing():
    assert PendingVisibility().without_visible(SNAPSHOT) == PendingVisibility()


def test_a_transaction_that_has_only_inserted_rows_is_pending_and_supersedes_nothing():
    """Snapshots show all but 14 and 20."""
    sent = PendingVisibility().add_others(frozenset([14, 20]))
    more = sent.add_keys(touched((T, 20, b"1")))

    assert (sent.any, sent.size, sent.keys_of(T)) == (True, 0, keys())
    assert (more.others, sorted(more.transactions)) == (frozenset({14}), [20])
    assert more.add_others(frozenset([14, 20])) == more
    assert from_json(orjson.loads(orjson.dumps(more.to_json()))) == more
    assert sent.add_others(frozenset([15])).without_visible(SNAPSHOT) == sent
    assert not PendingVisibility().add_others(frozenset([15])).without_visible(SNAPSHOT).any


def test_parts_of_a_transaction_add_up():
    both = PendingVisibility().add_keys(touched((T, 14, b"1"), (U, 14, b"1"), (T, 14, b"2"), (T, 15, b"9")))
    both = both.add_keys(touched((T, 14, b"3"), (T, 14, b"2"))).add_truncated([(U, 14), (T, 16)])
    both = both.add_lacking(lacking((T, 14, b"2", b"1"), (T, 15, b"9", b"9"), (T, 14, b"3", b"3")))
    both = both.add_lacking(lacking((T, 14, b"3", b"3"))).add_lacking(lacking())

    assert both.transactions == {
        14: Touches(
            {T: keys(b"1", b"2", b"3"), U: keys(b"1")},
            frozenset([U]),
            {T: frozenset([(b"1", b"2"), (b"3", b"3")])},
        ),
        15: Touches({T: keys(b"9")}, lacking={T: frozenset([(b"9", b"9")])}),
        16: Touches(truncated=frozenset([T])),
    }
    assert both.lacking_of(T) == ((b"1", b"2"), (b"3", b"3"), (b"9", b"9"))


@pytest.mark.parametrize(
    ("oid", "expected", "truncated"), [(T, [b"1", b"2", b"3"], False), (U, [b"1"], True), (7, [], False)]
)
def test_a_relation_s_keys_are_those_of_every_transaction(oid, expected, truncated):
    assert (WAITING.keys_of(oid).to_pylist(), WAITING.truncated(oid)) == (expected, truncated)


def test_its_size_is_the_keys_held():
    assert (WAITING.size, PendingVisibility().size) == (4, 0)


def test_it_comes_back_from_a_saved_state():
    pairs = {T: frozenset([(b"\xff", b""), (b"1", b"2")])}
    part = keys(b"left out", b"\xff\x00", b"", b"x" * 300)[1:]
    odd = WAITING.add({21: Touches({T: part, U: keys()}, lacking=pairs, whole=frozenset([7]))})

    saved = orjson.dumps(odd.to_json())
    assert from_json(orjson.loads(saved)) == odd
    assert orjson.dumps(from_json(orjson.loads(saved)).to_json()) == saved
    assert from_json(()) == PendingVisibility()


def held(kept: PendingVisibility, oid: int) -> tuple[int, bool]:
    return len(kept.keys_of(oid)), kept.everything_of(oid)


def test_as_many_keys_as_are_kept_come_back():
    kept = PendingVisibility().add_keys(many(KEPT_KEYS)).add_keys(many(KEPT_KEYS))

    back = from_json(orjson.loads(orjson.dumps(kept.to_json())))
    assert (held(back, T), back) == ((KEPT_KEYS, False), kept)


def test_of_more_it_is_known_only_that_they_are_more():
    kept = PendingVisibility().add_keys(many(2 * KEPT_KEYS)).add_keys(many(3, U)).add_keys(many(3, T, 15))

    assert (held(kept, T), held(kept, U)) == ((3, True), (3, False))
    assert held(from_json(orjson.loads(orjson.dumps(kept.to_json()))), T) == (3, True)
    assert not kept.truncated(T)
    assert held(kept.add_keys(many(3)), T) == (3, True)
    assert held(kept.without_visible(Visibility.parse("16:16:")), T) == (0, False)


def test_many_parts_and_transactions_add_up_to_the_same():
    rows = pa.concat_tables([many(40, oid, xid) for xid in range(500) for oid in range(10)])
    parts = PendingVisibility()
    for start in range(0, rows.num_rows, 50_000):
        parts = parts.add_keys(rows.slice(start, 50_000))

    assert (parts.size, parts) == (200_000, PendingVisibility().add_keys(rows))


def test_parts_go_over_the_limit_together(monkeypatch):
    monkeypatch.setattr(pending_visibility, "KEPT_KEYS", 3)
    first, again = (
        PendingVisibility().add_keys(many(3)),
        lacking(*((T, 14, b"1", b"%d" % n) for n in range(2))),
    )

    assert held(first.add_keys(many(3)), T) == (3, False)
    assert held(first.add_keys(many(4)), T) == (0, True)
    assert held(first.add_lacking(again), T) == (3, False)
    more = first.add_lacking(again).add_lacking(lacking(*((T, 14, b"2", b"%d" % n) for n in range(2))))
    assert (held(more, T), more.lacking_of(T)) == ((0, True), ())


def test_copies_add_up_in_the_order_of_the_log_and_are_saved():
    def counted(*rows: tuple[int, int, bytes, int]) -> pa.Table:
        return pa.table(
            [*([row[at] for row in rows] for at in range(3)), range(len(rows)), [row[3] for row in rows]],
            schema=COUNTED,
        )

    waiting = PendingVisibility().add_copies(
        counted((T, 20, b"a", -1), (T, 20, b"b", 1), (U, 20, b"a", 1), (T, 14, b"b", -1), (T, 14, b"b", -1))
    )
    again = from_json(orjson.loads(orjson.dumps(waiting.to_json())))

    assert again.copies_of(T).to_pylist() == [
        {"key": b"a", "net": -1, "low": -1},
        {"key": b"b", "net": -1, "low": -1},
    ]
    assert again.copies_of(7).num_rows == 0
    assert again.size == 4
    older = [
        {key: part for key, part in transaction.items() if key not in {"copies", "serial"}}
        for transaction in waiting.to_json()
    ]
    assert from_json(older).copies_of(T).num_rows == 0


def test_moved_rows_are_those_that_are_marked_each_once():
    rows = lacking(
        (T, 14, b"2", b"1"),
        (T, 15, b"9", b"9"),
        (U, 14, b"3", b"4"),
        (T, 16, b"5", None),
        (T, 17, b"2", b"1"),
    )

    assert moved_keys(rows) == {T: frozenset([(b"1", b"2"), (None, b"5")]), U: frozenset([(b"4", b"3")])}
    assert moved_keys(lacking()) == {}


def test_hidden_rows_may_have_moved_under_the_same_key_where_the_log_does_not_tell():
    hidden = PendingVisibility().add_lacking(
        lacking((T, 14, b"2", b"1"), (T, 15, b"9", b"9"), (T, 15, b"5", None))
    )

    assert hidden.moved_keys() == {T: frozenset([(b"1", b"2"), (None, b"5")])}
    assert hidden.moved_keys({T}) == {T: frozenset([(b"1", b"2"), (b"9", b"9"), (None, b"5")])}
    assert from_json(orjson.loads(orjson.dumps(hidden.to_json()))) == hidden


ROWS = touched((T, 9, b"1"), (T, 14, b"2"), (U, 14, b"3"), (T, 15, b"4"), (T, 20, b"5"))


def test_rows_of_hidden_transactions_wait():
    assert pending_rows(ROWS, SNAPSHOT).column("key").to_pylist() == [b"2", b"3", b"5"]
    assert pending_rows(touched(), SNAPSHOT).num_rows == 0


@pytest.mark.parametrize(("oid", "expected"), [(T, [b"2", b"5"]), (U, [b"3"]), (7, [])])
def test_a_window_s_rows_are_superseded_by_what_its_snapshot_hides(oid, expected):
    assert superseding_rows(ROWS, oid, SNAPSHOT).to_pylist() == expected


def test_no_entries_supersede_nothing():
    assert superseding_rows(touched(), T, SNAPSHOT).to_pylist() == []
