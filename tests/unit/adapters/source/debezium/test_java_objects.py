"""Java's serialised objects: those that Debezium stores, and nothing else."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.source.debezium.java_objects import UnknownObject, read_key, read_map
from tests.unit.adapters.source.debezium.java_writer import (
    HEAD,
    NULL_KEY,
    ONE_AND_TWO,
    byte_map,
    text_key,
)


def test_a_key_of_numbers_is_read():
    assert read_key(ONE_AND_TWO) == (1, 2)


def test_a_key_of_texts_is_read():
    assert read_key(text_key("a", "b")) == ("a", "b")


def test_no_key_is_null():
    assert read_key(NULL_KEY) is None


@given(st.dictionaries(st.binary(max_size=20), st.none() | st.binary(max_size=300), max_size=5))
def test_a_map_of_bytes_is_read(entries: dict[bytes, bytes | None]):
    assert read_map(byte_map(entries)) == entries


@pytest.mark.parametrize("end", range(len(ONE_AND_TWO)))
def test_whatever_is_cut_off_is_refused(end: int):
    with pytest.raises(UnknownObject):
        read_key(ONE_AND_TWO[:end])


@given(st.data())
def test_damaged_bytes_are_read_or_refused_and_nothing_else(data: st.DataObject):
    whole = bytearray(byte_map({b"key": b"value", b"other": b"text"}))
    for _damage in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(4, len(whole) - 1))] = data.draw(st.integers(0, 255))

    with suppress(UnknownObject):
        read_map(bytes(whole))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"PK\x03\x04", "no serialised Java object"),
        (
            HEAD + b"\x73\x72\x00\x0djava.util.URL" + bytes(8) + b"\x02\x00\x00\x78\x70",
            "an object of 'java.util.URL'",
        ),
        (HEAD + b"\x75\x72\x00\x02[B" + bytes(8) + b"\x02\x00\x00\x78\x70\x7f\xff\xff\xff", "longer than"),
        (
            HEAD + b"\x75\x72\x00\x13[Ljava.lang.String;" + bytes(8) + b"\x02\x00\x00\x78\x70" + bytes(4),
            "an array of",
        ),
        (HEAD + b"\x71\x00\x7e\x00\x09", "a reference to nothing"),
        (HEAD + b"\x76", "of the kind 0x76"),
    ],
)
def test_anything_else_is_refused_by_name(data: bytes, said: str):
    with pytest.raises(UnknownObject, match=said):
        read_key(data)


def test_a_map_that_claims_to_be_huge_takes_no_memory():
    whole = byte_map({})
    huge = whole.replace(struct.pack(">ii", 16, 0), struct.pack(">ii", 16, 2**31 - 1))

    with pytest.raises(UnknownObject, match="2147483647 entries"):
        read_map(huge)


def test_arrays_nested_in_each_other_are_refused_before_the_stack_ends():
    kind = b"\x72\x00\x13[Ljava.lang.Object;" + bytes(8) + b"\x02\x00\x00\x78\x70"
    again = b"\x75\x71\x00\x7e\x00\x00\x00\x00\x00\x01"

    with pytest.raises(UnknownObject, match="too deeply"):
        read_key(HEAD + b"\x75" + kind + b"\x00\x00\x00\x01" + again * 5000)
