"""JSON strings in bulk."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from engine.events.values.json_strings import escape
from engine.events.values.json_text import json_text, quote, quote_unpaired

TEXTS = st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"])))
JACKSONS = 'quote " back\\slash tab\t nl\n cr\r bell\x07 esc\x1b del\x7f nbsp\u00a0 ls\u2028 slash / 😀'


def large(*texts: str | None) -> pa.Array:
    return pa.array(texts, pa.large_string())


@given(TEXTS)
def test_escaped_text_is_a_json_string(texts):
    shown = escape(large(*texts)).to_pylist()

    assert [None if text is None else json.loads(f'"{text}"') for text in shown] == texts


@given(TEXTS, st.integers(0, 5))
def test_a_slice_is_escaped_like_the_whole(texts, start):
    assert escape(large(*texts).slice(start)).to_pylist() == escape(large(*texts)).to_pylist()[start:]


def test_control_characters_are_written_as_jackson_writes_them():
    expected = (
        'quote \\" back\\\\slash tab\\t nl\\n cr\\r bell\\u0007 esc\\u001B del'
        "\x7f nbsp\u00a0 ls\u2028 slash / \\uD83D\\uDE00"
    )

    assert escape(large(JACKSONS)).to_pylist() == [expected]
    assert quote(JACKSONS) == f'"{expected}"'


def test_characters_beyond_the_bmp_are_two_surrogates_as_jackson_writes_them_into_bytes():
    texts = large("a😀b", None, "\U0010ffff\U00010000", "", "é€\n𐐷")

    assert escape(texts).to_pylist() == [
        r"a\uD83D\uDE00b",
        None,
        r"\uDBFF\uDFFF\uD800\uDC00",
        "",
        r"é€\n\uD801\uDC37",
    ]
    assert escape(texts.slice(2)).to_pylist() == escape(texts).to_pylist()[2:]


def test_many_and_large_texts_beyond_the_bmp_are_escaped_in_pieces(monkeypatch):
    monkeypatch.setattr("engine.events.values.json_strings._LARGE", 64)
    monkeypatch.setattr("engine.events.values.surrogates._PIECE", 3)
    texts = ["😀" * count + "x\t" * (count % 3) for count in range(40)]

    expected = [r"\uD83D\uDE00" * count + r"x\t" * (count % 3) for count in range(40)]
    assert escape(large(*texts)).to_pylist() == expected


def test_a_java_string_of_jackson_keeps_them():
    assert quote_unpaired('"😀\x1b"') == r'"\"😀\u001B\""'


def test_whole_values_are_written_like_single_texts():
    value = {"a😀": [1, None, True, False, "\x1b"], "b": {}, "c": -(2**63)}

    assert (
        json_text(value) == r'{"a\uD83D\uDE00":[1,null,true,false,"\u001B"],"b":{},"c":-9223372036854775808}'
    )


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_one_quoted_text_is_the_same_as_a_column(text):
    assert quote(text) == f'"{escape(large(text))[0].as_py()}"'
