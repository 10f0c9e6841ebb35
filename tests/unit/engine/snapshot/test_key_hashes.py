"""Hashes of merge keys: what is among them is never missed, and what is not hardly ever taken for it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.snapshot.key_hashes import KeyHashes, KeyHashing
from engine.snapshot.merge_key import KEY_TYPE, merge_keys_of

KEYS = st.lists(st.binary(max_size=12), max_size=20)


def array(keys: list[bytes]) -> pa.Array:
    return pa.array(keys, KEY_TYPE)


def hashes(*batches: list[bytes]) -> KeyHashes:
    hashing = KeyHashing()
    for batch in batches:
        hashing.add(array(batch))
    return hashing.all


@given(st.lists(KEYS, max_size=3), KEYS)
def test_a_key_that_is_there_is_never_missed(batches, asked):
    known = {key for batch in batches for key in batch}

    assert hashes(*batches).may_have(array(asked)) or not known & set(asked)


def test_other_keys_are_told_apart():
    known = merge_keys_of([(str(number),) for number in range(20_000)])
    others = merge_keys_of([(str(number),) for number in range(20_000, 22_000)])
    found = hashes(known[:5_000], known[5_000:])

    assert not hashes(known).may_have(array([]))
    assert sum(found.may_have(array([key])) for key in others) <= 2
    assert found.may_have(array([*others, known[12_345]]))


@pytest.mark.parametrize("rows", [1, 4096, 4097, 10_000])
def test_a_row_costs_four_bytes(rows):
    found = hashes(merge_keys_of([(str(number),) for number in range(rows)]))

    assert len(found.data) <= 4 * rows
    assert found.may_have(array(merge_keys_of([(str(rows - 1),)])))


def test_a_run_without_rows_has_none():
    assert not hashes().may_have(array([b"a"]))
