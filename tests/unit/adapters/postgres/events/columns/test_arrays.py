"""Arrays of any items, in bulk and one by one."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.postgres.events.columns.arrays import array_items, arrays, delimited_arrays
from engine.errors import SourceError
from engine.events.values.json_strings import escape
from engine.events.values.text import unchanged

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)


def array_text(items: list[str | None]) -> str:
    """An array as PostgreSQL writes it, everything quoted that may be."""
    shown = (
        "NULL" if item is None else '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'
        for item in items
    )
    return "{" + ",".join(shown) + "}"


@given(st.lists(st.none() | st.lists(st.none() | TEXT)))
def test_arrays_of_any_text_come_back(rows):
    texts = pa.array([None if row is None else array_text(row) for row in rows], pa.large_string())

    shown = arrays(texts, escape, quoted=True).to_pylist()

    assert [None if text is None else json.loads(text) for text in shown] == rows


def test_items_of_digits_are_strings_where_the_type_says_so():
    """As UUIDs may be."""
    nil = "00000000-0000-0000-0000-000000000000"
    texts = pa.array([f"{{{nil}}}", "{}", None, f"{{{nil},NULL}}", f"{{{nil},{nil}}}"], pa.large_string())
    wanted = [[nil], [], None, [nil, None], [nil, nil]]

    for some, expected in ((texts, wanted), (texts.slice(0, 1), wanted[:1])):
        shown = arrays(some, unchanged, quoted=True).to_pylist()
        assert [None if text is None else json.loads(text) for text in shown] == expected


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("{}", []),
        ("{1,NULL,-3}", ["1", None, "-3"]),
        ('{"NULL",null,a b}', ["NULL", "null", "a b"]),
        ("[0:2]={5,6,7}", ["5", "6", "7"]),
        ("{{1,2},{3,4}}", ["1", "2", "3", "4"]),
        ('{"{x}","a\\"b"}', ["{x}", 'a"b']),
    ],
)
def test_items_of_arrays(text, items):
    assert array_items(text) == items


@pytest.mark.parametrize("text", ["", "1", "{", "1 2 3"])
def test_text_that_is_no_array_is_refused(text):
    with pytest.raises(SourceError, match="no braces"):
        arrays(pa.array(["{1}", None, text], pa.large_string()), escape, quoted=False)


@pytest.mark.parametrize(
    ("text", "delimiter", "shown"),
    [
        ("{(1,1),(0,0);(2,2),(1,1)}", ";", '["(1,1),(0,0)","(2,2),(1,1)"]'),
        ("{0101:NULL:0102}", ":", '["0101",null,"0102"]'),
        (None, ":", None),
    ],
)
def test_arrays_with_delimiters_of_their_own(text, delimiter, shown):
    made = delimited_arrays(pa.array([text], pa.large_string()), escape, delimiter, quoted=True)

    assert made.to_pylist() == [shown]
