"""Merge keys are equal where, and only where, the key's texts are."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from engine.snapshot.merge_key import merge_keys

PART = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=3)


@given(st.lists(st.tuples(PART, PART), min_size=1))
def test_keys_are_equal_only_where_all_columns_are(rows):
    columns = [pa.array([row[at] for row in rows], pa.large_string()) for at in (0, 1)]
    keys = merge_keys(columns).to_pylist()

    for record, key in zip(rows, keys, strict=True):
        for other, another in zip(rows, keys, strict=True):
            assert (key == another) == (record == other)


def test_a_key_is_lengths_and_texts():
    columns = [pa.array(["é", None]), pa.array(["", "x"])]

    assert merge_keys(columns).to_pylist() == [b"\0\0\0\2\xc3\xa9\0\0\0\0", b"\xff\xff\xff\xff\0\0\0\1x"]
