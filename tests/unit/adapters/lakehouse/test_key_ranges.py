from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.lakehouse.key_ranges import KeyRange, KeyRanges, range_of
from adapters.lakehouse.port import Batch

PAIRS = st.tuples(st.integers(0, 60), st.integers(0, 6)).map(lambda pair: KeyRange(pair[0], sum(pair)))


@given(st.lists(PAIRS, max_size=12), PAIRS)
def test_ranges_meet_exactly_what_was_added(added: list[KeyRange], asked: KeyRange):
    ranges, keys = KeyRanges(), set[int]()
    for added_range in added:
        ranges.add(added_range)
        keys |= {*range(added_range.low, added_range.high + 1)}

    assert ranges.meets(asked) == any(key in keys for key in range(asked.low, asked.high + 1))


def test_many_ranges_become_fewer_that_still_have_all_keys():
    ranges = KeyRanges()
    for low in range(0, 9000, 3):
        ranges.add(KeyRange(low, low))

    assert len(ranges._ranges) == 1000
    assert all(ranges.meets(KeyRange(low, low)) for low in range(0, 9000, 3))
    assert not ranges.meets(KeyRange(8998, 8999))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([3, 1, 2], pa.int32()), KeyRange(1, 3)),
        (pa.array(["é", "z"]), KeyRange("z", "é")),
        (pa.array([1, None]), None),
        (pa.array([1.0, 2.0]), None),
        (pa.array([], pa.int64()), None),
    ],
)
def test_a_batch_has_a_range_if_its_keys_have_a_sure_order(values: pa.Array, expected: KeyRange | None):
    rows = pa.table({"id": values})

    assert range_of(Batch(rows, rows.schema, ("id",))) == expected
