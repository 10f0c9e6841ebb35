"""Which windows are small enough to be read without a Spark job."""

from __future__ import annotations

import pytest

from adapters.postgres.snapshot.local_reader import Bounds, LocalReader


@pytest.mark.parametrize(
    ("sizes", "rows", "small"),
    [
        ([(1, 100.0)], 10_000, True),
        ([(5, 100.0), (5, 100.0)], 10_000, True),
        ([(5, 100.0), (6, 100.0)], 10_000, False),
        ([(1, 100_000.0)], 10_000, False),
        ([(1, 1.0)], 0, False),
    ],
    ids=["one-chunk", "at-the-bound", "too-many-rows", "too-many-bytes", "switched-off"],
)
def test_a_window_is_small_by_rows_and_by_bytes(sizes, rows, small):
    reader = LocalReader(lambda: pytest.fail("nothing is read"), Bounds(rows, chunk_rows=1000))

    assert reader.takes(sizes) is small


def test_a_window_that_is_not_read_is_cancelled_without_effect():
    LocalReader(lambda: pytest.fail("nothing is read"), Bounds(1, 1)).cancel("window")
