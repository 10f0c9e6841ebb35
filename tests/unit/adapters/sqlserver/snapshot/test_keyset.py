"""Key conditions of T-SQL, asked of SQLite, which sorts NULLs first, too: each row falls in one range."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from adapters.sqlserver.server.table import Column
from adapters.sqlserver.snapshot.keyset import Keyset
from engine.model import Key, Range

A = Column("a", 1, "int", nullable=True)
B = Column("b", 2, "int", nullable=True)
NAME = Column("n", 1, "varchar", 20, nullable=False, collation="Latin1_General_CI_AS")
NUMBERS = st.one_of(st.none(), st.integers(-3, 3))
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=12)
KEYS = Keyset((A, B))
ONE = Keyset((A,))


def found(
    rows: Sequence[tuple[int | None, int | None]], condition: str
) -> list[tuple[int | None, int | None]]:
    """The rows that a condition holds for, in the order of their keys."""
    (statement,) = sqlglot.transpile(
        f"SELECT a, b FROM t WHERE {condition} ORDER BY a, b", read="tsql", write="sqlite"
    )
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (a int, b int)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
        return connection.execute(statement.replace(" NULLS LAST", "")).fetchall()


def key(row: Sequence[int | None]) -> Key:
    return tuple(None if value is None else str(value) for value in row)


def ordered(rows: Sequence[tuple[int | None, int | None]]) -> list[tuple[int | None, int | None]]:
    return sorted(rows, key=lambda row: [(value is not None, value or 0) for value in row])


@given(ROWS, st.data())
def test_ranges_that_follow_each_other_hold_each_row_once(
    rows: list[tuple[int | None, int | None]], data: st.DataObject
):
    cuts = ordered(data.draw(st.lists(st.sampled_from(rows), max_size=4, unique=True)))
    bounds = [None, *map(key, cuts), key(ordered(rows)[-1])]

    told = [row for after, upto in pairwise(bounds) for row in found(rows, KEYS.between(after, upto))]

    assert told == ordered(rows)


@given(ROWS, st.data())
def test_a_range_may_hold_its_lower_bound_and_lack_its_upper_one(
    rows: list[tuple[int | None, int | None]], data: st.DataObject
):
    holds, lacks = (data.draw(st.booleans()) for _ in range(2))
    after, upto = ordered([data.draw(st.sampled_from(rows)) for _ in range(2)])
    inside = Range(key(after), key(upto), holds_after=holds, lacks_upto=lacks)

    expected = [
        row
        for row in ordered(rows)
        if ordered([after, row])[0] == after
        and ordered([row, upto])[-1] == upto
        and (row != after or holds)
        and (row != upto or not lacks)
    ]
    assert found(rows, KEYS.inside(inside)) == expected


@given(ROWS, st.data())
def test_rows_of_one_nullable_column_are_parted_as_well(
    rows: list[tuple[int | None, int | None]], data: st.DataObject
):
    bound = key(data.draw(st.sampled_from(rows))[:1])

    below, above = found(rows, ONE.up_to(bound)), found(rows, ONE.beyond(bound))

    assert [*below, *above] == ordered(rows)


@given(ROWS, st.data())
def test_named_keys_find_their_rows_and_no_others(
    rows: list[tuple[int | None, int | None]], data: st.DataObject
):
    chosen = data.draw(st.lists(st.sampled_from(rows), min_size=1, max_size=3))

    told = found(rows, KEYS.among([key(row) for row in chosen]))

    assert told == ordered([row for row in rows if row in chosen])


def test_without_bounds_every_row_is_meant():
    assert KEYS.between(None, None) == "1 = 1"


def test_a_text_is_compared_in_its_columns_own_type_and_collation():
    said = Keyset((NAME,)).beyond(("O'Hara",))

    assert said == "[n] > CONVERT(varchar(20), N'O''Hara' COLLATE Latin1_General_CI_AS)"


def test_a_composite_range_says_where_the_index_is_to_be_entered():
    keys = Keyset((Column("a", 1, "int", nullable=False), Column("b", 2, "int", nullable=False)))

    said = keys.between(("1", "2"), ("3", "4"))

    assert said.startswith("([a] >= CONVERT(int, '1'))")
    assert "([a] <= CONVERT(int, '3'))" in said


@pytest.mark.parametrize(
    ("other", "same"),
    [(A, True), (Column("a", 1, "bigint"), False), (Column("a", 1, "int", collation="x"), False)],
)
def test_the_fingerprint_tells_another_key(other: Column, *, same: bool):
    assert (Keyset((other,)).fingerprint == ONE.fingerprint) == same
