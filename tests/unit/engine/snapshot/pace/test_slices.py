"""How much of a window goes out in a turn follows from what the last slice took."""

from __future__ import annotations

import pytest

from engine.snapshot.pace.slices import Slices

FIRST = 1 << 20


def after(*slices: tuple[int, float]) -> float:
    """The bytes of the next slice, after some that had so many bytes and took so many seconds."""
    learned = Slices(0.1, FIRST)
    for size, taken_s in slices:
        learned.begin(size, 5.0)
        learned.end(5.0 + taken_s)
    return learned.most_bytes


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        ((), FIRST),
        (((FIRST, 0.1),), FIRST),
        (((FIRST, 0.05),), 2 * FIRST),
        (((FIRST, 0.05), (2 * FIRST, 0.4)), FIRST / 2),
        # A sink that was given names may have to copy the next files.
        (((FIRST, 0.001),), 4 * FIRST),
        (((FIRST, 0.2),), FIRST / 2),
        # A store that takes its time for any turn makes no slice smaller than this.
        (((FIRST, 5.0),), FIRST / 4),
        (((0, 5.0),), FIRST),
    ],
)
def test_a_slice_takes_a_turn_as_long_as_wanted(slices, expected):
    assert after(*slices) == pytest.approx(expected)


def test_a_commit_without_a_slice_tells_nothing():
    learned = Slices(0.1, FIRST)
    learned.end(9.0)

    assert learned.most_bytes == FIRST
