"""Bytes in each form of `binary.handling.mode`."""

from __future__ import annotations

import base64

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from engine.events.settings import BinaryMode
from engine.events.values.binary import digits_text, hex_text, unescape

VALUES = st.lists(st.none() | (st.binary(max_size=20) | st.binary(min_size=300, max_size=700)))


def column(values: list[bytes | None]) -> pa.Array:
    return pa.array([None if value is None else "\\x" + value.hex() for value in values], pa.large_string())


@given(VALUES)
def test_each_mode_holds_the_bytes(values):
    texts = column(values)
    shown = {mode: hex_text(texts, mode).to_pylist() for mode in BinaryMode}

    for at, value in enumerate(values):
        if value is None:
            assert {shown[mode][at] for mode in BinaryMode} == {None}
            continue
        assert shown[BinaryMode.HEX][at] == value.hex()
        assert shown[BinaryMode.BYTES][at] == base64.b64encode(value).decode()
        assert shown[BinaryMode.BASE64][at] == base64.b64encode(value).decode()
        assert shown[BinaryMode.BASE64_URL_SAFE][at] == base64.urlsafe_b64encode(value).decode()


@given(VALUES, st.integers(0, 3), st.sampled_from(BinaryMode), st.booleans())
def test_digits_without_a_mark_are_the_same_bytes_in_either_case(values, start, mode, upper):
    digits = [None if value is None else value.hex().upper() if upper else value.hex() for value in values]
    texts = pa.array(digits, pa.large_string()).slice(start)

    assert digits_text(texts, mode).to_pylist() == hex_text(column(values), mode).to_pylist()[start:]


@given(VALUES, st.integers(0, 3))
def test_a_slice_is_like_the_whole(values, start):
    whole = hex_text(column(values), BinaryMode.BYTES).to_pylist()

    assert hex_text(column(values).slice(start), BinaryMode.BYTES).to_pylist() == whole[start:]


def test_the_escape_form_is_read_too():
    assert unescape("a\\\\b\\000\\377") == b"a\\b\x00\xff"
    assert hex_text(pa.array(["\\xff", "a"], pa.large_string()), BinaryMode.HEX).to_pylist() == ["ff", "61"]
