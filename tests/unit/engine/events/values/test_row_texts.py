"""Row texts taken apart are the values that the query put together, or are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InvariantError
from engine.events.values.row_form import ESCAPES, RowMode, RowShape
from engine.events.values.row_texts import SeparatorInData, split_rows

SHAPE = RowShape(("id", "a", "b"), (False, True, True), (False, True, False))
VALUE = st.none() | st.text(st.sampled_from("tf\x1f,;-1é\\bs"), max_size=4)
ROWS = st.lists(
    st.tuples(st.text("123", min_size=1), VALUE, st.none() | st.text("1\x1f\\bs", min_size=1)), max_size=8
)


def fast_text(row: tuple[str | None, ...]) -> str:
    """What FAST's expression gives."""
    flags = "".join("t" if row[at] is None else "f" for at in SHAPE.flagged)
    return flags + "".join("\x1f" + (value or "") for value in row)


def exact_text(row: tuple[str | None, ...]) -> str:
    """What EXACT's expression gives."""
    lengths = "".join("-1," if value is None else f"{len(value.encode())}," for value in row)
    return lengths + ";" + "".join(value or "" for value in row)


def escaped_text(row: tuple[str | None, ...]) -> str:
    """What ESCAPED's expression gives."""
    return fast_text(tuple(None if value is None else escaped(value) for value in row))


def escaped(value: str) -> str:
    for plain, shown in ESCAPES:
        value = value.replace(plain, shown)
    return value


def columns_of(rows: list[tuple[str | None, ...]]) -> list[list[str | None]]:
    return [[row[at] for row in rows] for at in range(3)]


@given(ROWS, st.sampled_from([pa.string(), pa.large_string()]))
def test_the_fast_form_is_right_or_refused(rows, kind):
    texts = pa.array([fast_text(row) for row in rows], kind)
    if any("\x1f" in (value or "") for row in rows for value in row):
        with pytest.raises(SeparatorInData):
            split_rows(texts, SHAPE, RowMode.FAST)
    else:
        assert [split_row.to_pylist() for split_row in split_rows(texts, SHAPE, RowMode.FAST)] == columns_of(
            rows
        )


@given(ROWS, st.sampled_from([pa.string(), pa.large_string()]))
def test_the_exact_form_is_always_right(rows, kind):
    texts = pa.array([exact_text(row) for row in rows], kind)

    assert [split_row.to_pylist() for split_row in split_rows(texts, SHAPE, RowMode.EXACT)] == columns_of(
        rows
    )


@given(ROWS, st.sampled_from([pa.string(), pa.large_string()]))
def test_the_escaped_form_is_always_right(rows, kind):
    texts = pa.array([escaped_text(row) for row in rows], kind)

    assert [split_row.to_pylist() for split_row in split_rows(texts, SHAPE, RowMode.ESCAPED)] == columns_of(
        rows
    )


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1))
def test_any_text_survives_the_escaped_form(rows):
    shape = RowShape(("a", "b"), (True, True), (True, True))
    texts = pa.array(["ff\x1f" + "\x1f".join(map(escaped, row)) for row in rows])

    found = split_rows(texts, shape, RowMode.ESCAPED)

    assert list(zip(*(column.to_pylist() for column in found), strict=True)) == rows


@given(ROWS, st.integers(0, 3))
def test_a_slice_of_a_batch_is_split_like_the_whole(rows, start):
    texts = pa.array([exact_text(row) for row in rows], pa.string())
    whole = split_rows(texts, SHAPE, RowMode.EXACT)

    part = split_rows(texts.slice(start), SHAPE, RowMode.EXACT)

    assert [column.to_pylist() for column in part] == [part.to_pylist()[start:] for part in whole]


def test_separators_that_make_up_for_each_other_are_noticed():
    texts = pa.array(["f\x1f1\x1f\x1f\x1f2", "f\x1f1\x1f2"])

    with pytest.raises(SeparatorInData):
        split_rows(texts, SHAPE, RowMode.FAST)


def test_empty_text_is_null_if_no_value_has_one_whatever_the_catalog_says():
    texts = pa.array(["f\x1f\x1fx\x1f", "t\x1f2\x1f\x1f3"])

    assert [column.to_pylist() for column in split_rows(texts, SHAPE, RowMode.FAST)] == [
        [None, "2"],
        ["x", None],
        [None, "3"],
    ]


def test_a_null_row_is_our_own_bug():
    with pytest.raises(InvariantError):
        split_rows(pa.array([None, "x"]), SHAPE, RowMode.FAST)
