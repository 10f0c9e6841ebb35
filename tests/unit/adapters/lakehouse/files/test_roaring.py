from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.lakehouse.files.roaring import bitmap_of, positions_in
from engine.errors import SinkError

RANGES = st.lists(
    st.tuples(st.integers(0, 300_000), st.integers(1, 9000), st.sampled_from([1, 1, 3])), max_size=6
)


@given(RANGES)
def test_positions_come_back_from_their_bitmap(ranges: list[tuple[int, int, int]]):
    parts = [np.arange(begin, begin + count * step, step) for begin, count, step in ranges]
    positions = np.unique(np.concatenate([np.empty(0, np.int64), *parts]))

    assert positions_in(bitmap_of(positions)).tolist() == positions.tolist()


def test_a_bitmap_is_laid_out_as_the_specification_says():
    # Two containers: 1 and 2 below 65,536, and 65,541 behind it.
    expected = struct.pack("<II4HII3H", 12346, 2, 0, 1, 1, 0, 24, 28, 1, 2, 5)

    assert bitmap_of(np.array([1, 2, 65541])) == expected


@pytest.mark.parametrize("containers", [1, 5])
def test_runs_are_read(containers: int):
    heads = b"".join(struct.pack("<HH", n, 9) for n in range(containers))
    offsets = bytes(4 * containers) if containers >= 4 else b""
    runs = struct.pack("<H4H", 2, 5, 6, 100, 2) * containers
    bitmap = struct.pack("<HHB", 12347, containers - 1, (1 << containers) - 1) + heads + offsets + runs

    each = [*range(5, 12), 100, 101, 102]
    assert positions_in(bitmap).tolist() == [n * 65536 + low for n in range(containers) for low in each]


@pytest.mark.parametrize("bitmap", [b"", b"\x00" * 8, bitmap_of(np.arange(9))[:-1]])
def test_what_is_no_bitmap_is_refused(bitmap: bytes):
    with pytest.raises(SinkError, match="can't be read"):
        positions_in(bitmap)
