"""Row texts taken apart are the values that the query put together, or are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.postgres.builtin import BUILTIN
from adapters.postgres.rows import (
    RowMode,
    RowShape,
    SeparatorInData,
    may_be_empty,
    row_expression,
    row_shape,
    split_rows,
)
from adapters.postgres.table import Column, PgType, Table, relation_of
from engine.errors import InvariantError
from engine.model import CollectionId

SHAPE = RowShape(("id", "a", "b"), (False, True, True), (1,))
VALUE = st.none() | st.text(st.sampled_from("tf\x1f,;-1é"), max_size=4)
ROWS = st.lists(
    st.tuples(st.text("123", min_size=1), VALUE, st.none() | st.text("1\x1f", min_size=1)), max_size=8
)


def fast_text(row: tuple[str | None, ...]) -> str:
    """What FAST's expression gives."""
    flags = "".join("t" if row[at] is None else "f" for at in SHAPE.flagged)
    return flags + "".join("\x1f" + (value or "") for value in row)


def exact_text(row: tuple[str | None, ...]) -> str:
    """What EXACT's expression gives."""
    lengths = "".join("-1," if value is None else f"{len(value.encode())}," for value in row)
    return lengths + ";" + "".join(value or "" for value in row)


def columns_of(rows: list[tuple[str | None, ...]]) -> list[list[str | None]]:
    return [[row[at] for row in rows] for at in range(3)]


@given(ROWS, st.sampled_from([pa.string(), pa.large_string()]))
def test_the_fast_form_is_right_or_refused(rows, kind):
    texts = pa.array([fast_text(row) for row in rows], kind)
    if any("\x1f" in (value or "") for row in rows for value in row):
        with pytest.raises(SeparatorInData):
            split_rows(texts, SHAPE, RowMode.FAST)
    else:
        assert [one.to_pylist() for one in split_rows(texts, SHAPE, RowMode.FAST)] == columns_of(rows)


@given(ROWS, st.sampled_from([pa.string(), pa.large_string()]))
def test_the_exact_form_is_always_right(rows, kind):
    texts = pa.array([exact_text(row) for row in rows], kind)

    assert [one.to_pylist() for one in split_rows(texts, SHAPE, RowMode.EXACT)] == columns_of(rows)


@given(ROWS, st.integers(0, 3))
def test_a_slice_of_a_batch_is_split_like_the_whole(rows, start):
    texts = pa.array([exact_text(row) for row in rows], pa.string())
    whole = split_rows(texts, SHAPE, RowMode.EXACT)

    part = split_rows(texts.slice(start), SHAPE, RowMode.EXACT)

    assert [one.to_pylist() for one in part] == [one.to_pylist()[start:] for one in whole]


def test_separators_that_make_up_for_each_other_are_noticed():
    texts = pa.array(["f\x1f1\x1f\x1f\x1f2", "f\x1f1\x1f2"])

    with pytest.raises(SeparatorInData):
        split_rows(texts, SHAPE, RowMode.FAST)


def test_a_null_row_is_our_own_bug():
    with pytest.raises(InvariantError):
        split_rows(pa.array([None, "x"]), SHAPE, RowMode.FAST)


def test_expressions_quote_names_and_nest_what_is_too_much_for_a_function():
    assert row_expression(SHAPE, RowMode.FAST) == (
        """concat("a" IS NOT DISTINCT FROM NULL, E'\\x1f', "id", E'\\x1f', "a", E'\\x1f', "b")"""
    )
    assert row_expression(RowShape((), (), ()), RowMode.FAST) == "''"
    wide = RowShape(tuple(f'c"{at}' for at in range(1000)), (True,) * 1000, tuple(range(1000)))
    for mode in RowMode:
        assert deepest(row_expression(wide, mode)) <= 100
        assert row_expression(wide, mode, "t").count('"t"."c""999"') >= 1


def deepest(expression: str) -> int:
    """The most arguments that one call of concat has; the names hold no parentheses or commas."""
    most, open_calls = 0, []
    for token in expression.replace("','", "").replace("';'", "").replace("'UTF8'", ""):
        if token == "(":
            open_calls.append(1)
        elif token == ",":
            open_calls[-1] += 1
        elif token == ")":
            most = max(most, open_calls.pop())
    return most


def test_only_columns_that_may_be_null_and_empty_are_flagged():
    names = {
        "text": 25,
        "int4": 23,
        "bpchar": 1042,
        "varbit": 1562,
        "jsonb": 3802,
        "bytea": 17,
        "_text": 1009,
    }
    columns = tuple(Column(name, oid) for name, oid in names.items())
    table = Table(
        1, CollectionId(("s", "t")), "r", (*columns, Column("nn", 25, nullable=False), Column("x", 99_999))
    )

    shape = row_shape(relation_of(table), table, {})

    assert [shape.columns[at] for at in shape.flagged] == ["text", "bpchar", "varbit", "x"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (PgType(1, "d", kind="d", base=25), True),
        (PgType(1, "d", kind="d", base=23), False),
        (PgType(1, "e", kind="e", labels=("a", "b")), False),
        (PgType(1, "e", kind="e", labels=("a", "")), True),
        (PgType(1, "hstore", "public"), True),
        (PgType(1, "int4", "mine"), True),
        (PgType(1, "row", "public", kind="c"), False),
        (None, True),
    ],
)
def test_types_that_may_be_empty(kind, expected):
    assert may_be_empty(kind, BUILTIN) is expected
