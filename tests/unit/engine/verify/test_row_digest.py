"""Digests of rows, against what a stranger computes from the documentation, one row at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_128

from engine.verify import row_digest
from engine.verify.row_digest import digest_sum, row_digests

if TYPE_CHECKING:
    from collections.abc import Sequence

SEED = 0x1122334455667788
_texts = st.lists(st.tuples(st.none() | st.text(max_size=20), st.text(max_size=40)), max_size=12)


def arrays(rows: Sequence[tuple[str | None, str]]) -> tuple[pa.Array, pa.Array]:
    return pa.array([key for key, _row in rows], pa.large_string()), pa.array(
        [row for _key, row in rows], pa.large_string()
    )


def by_hand(rows: Sequence[tuple[str | None, str]], seed: int = SEED) -> int:
    """As the documentation says: the sum of XXH3 over key, line break and row, modulo 2^128."""
    total = 0
    for key, row in rows:
        digest = xxh3_128((key or "").encode() + b"\n" + row.encode(), seed=seed).hexdigest()
        total = (total + int(digest, 16)) % 2**128
    return total


@given(_texts)
def test_the_sum_is_what_the_documentation_says(rows):
    assert digest_sum(row_digests(*arrays(rows), SEED)) == by_hand(rows)


def test_it_is_the_same_in_batches_of_any_size(monkeypatch):
    rows = [(str(number), f'{{"id":{number}}}') for number in range(10)]
    monkeypatch.setattr(row_digest, "_AT_ONCE", 3)

    assert digest_sum(row_digests(*arrays(rows), SEED)) == by_hand(rows)


def test_slices_and_keys_of_dictionaries_have_the_same_digests():
    keys, rows = arrays([("1", "a"), ("2", "b"), (None, "c")])

    assert row_digests(keys.slice(1), rows.slice(1), SEED) == row_digests(keys, rows, SEED)[16:]


@given(_texts, st.data())
def test_the_sum_of_the_survivors_leaves_the_others_out(rows, data):
    survives = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))

    found = digest_sum(row_digests(*arrays(rows), SEED), np.array(survives, dtype=bool))

    assert found == by_hand([row for row, on in zip(rows, survives, strict=True) if on])


@given(_texts, st.randoms())
def test_the_order_does_not_matter_and_parts_add_up(rows, chance):
    shuffled = list(rows)
    chance.shuffle(shuffled)
    half = len(rows) // 2

    assert by_hand(shuffled) == digest_sum(row_digests(*arrays(rows), SEED))
    assert (by_hand(rows[:half]) + by_hand(rows[half:])) % 2**128 == by_hand(rows)


def test_a_sum_carries_into_every_word_and_wraps():
    most = b"\xff" * 16

    assert digest_sum(most * 3) == (3 * (2**128 - 1)) % 2**128


@pytest.mark.parametrize(
    "other",
    [
        [("1", '{"a":1}'), ("1", '{"a":1}')],
        [("1", '{"a":"1"}')],
        [("1", '{"a":null}')],
        [("2", '{"a":1}')],
        [(None, '1\n{"a":1}')],
        [],
    ],
)
def test_a_row_that_differs_in_anything_changes_the_sum(other):
    assert by_hand(other) != by_hand([("1", '{"a":1}')])


def test_another_seed_gives_other_sums():
    assert by_hand([("1", "a")], 1) != by_hand([("1", "a")], 2)
