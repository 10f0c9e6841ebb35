"""JSON text in bulk."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from engine.events.values.text import (
    each,
    escape,
    fill,
    join,
    json_text,
    mostly,
    quote,
    quote_unpaired,
    replace_rows,
    slices,
    text_parts,
)

TEXTS = st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"])))
JACKSONS = 'quote " back\\slash tab\t nl\n cr\r bell\x07 esc\x1b del\x7f nbsp\u00a0 ls\u2028 slash / 😀'


def large(*texts: str | None) -> pa.Array:
    return pa.array(texts, pa.large_string())


@given(TEXTS)
def test_escaped_text_is_a_json_string(texts):
    shown = escape(large(*texts)).to_pylist()

    assert [None if one is None else json.loads(f'"{one}"') for one in shown] == texts


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
    monkeypatch.setattr("engine.events.values.text._LARGE", 64)
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


def test_join_merges_constants_and_keeps_null():
    assert join(["{", '"a":', large("1", None), "}"], 2).to_pylist() == ['{"a":1}', None]
    assert join(["a", "b"], 3).to_pylist() == ["ab"] * 3
    assert join([], 1).to_pylist() == [""]


def test_fill_and_replace():
    assert fill(large("x", None), "null").to_pylist() == ["x", "null"]
    assert replace_rows(large("a", "b", "c"), np.array([0, 2]), ["x", None]).to_pylist() == ["x", "b", None]
    assert each(large("a", None), str.upper).to_pylist() == ["A", None]


def test_strings_of_either_size_have_the_same_parts():
    for kind in (pa.string(), pa.large_string()):
        offsets, data = text_parts(pa.array(["ab", None, "c"], kind).slice(1))
        assert bytes(data[offsets[0] : offsets[-1]]) == b"c"
        assert len(offsets) == 3


@given(st.lists(st.tuples(st.binary(max_size=5), st.binary(max_size=5), st.booleans()), min_size=1))
def test_slices_take_what_lies_between_places(rows):
    data, begins, ends = bytearray(), [], []
    for gap, value, filled in rows:
        data += b"g" * len(gap)
        begins.append(len(data))
        data += b"v" * len(value) if filled else b""
        ends.append(len(data))
    columns = slices(
        np.frombuffer(bytes(data), np.uint8),
        np.array(begins),
        np.array(ends),
        np.array([filled for _, _, filled in rows]),
    )

    assert columns.to_pylist() == ["v" * len(value) if filled else None for _, value, filled in rows]


def test_values_beyond_the_fast_way_take_the_slow_one():
    def fast(texts: pa.Array) -> pa.Array:
        return texts.cast(pa.int64()).cast(pa.large_string())

    given = large("07", "x", None, "12345")

    assert mostly(given, fast, "^[0-9]{1,4}$", lambda text: f"<{text}>", 4).to_pylist() == [
        "7",
        "<x>",
        None,
        "<12345>",
    ]
