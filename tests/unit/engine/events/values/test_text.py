"""Text in bulk."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from engine.events.values.text import each, fill, join, mostly, replace_rows, slices, text_parts

TEXTS = st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"])))
JACKSONS = 'quote " back\\slash tab\t nl\n cr\r bell\x07 esc\x1b del\x7f nbsp\u00a0 ls\u2028 slash / 😀'


def large(*texts: str | None) -> pa.Array:
    return pa.array(texts, pa.large_string())


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
