"""Which integer keys are cut by arithmetic, and how gaps are named."""

from __future__ import annotations

import pytest

from engine.model import Range
from engine.snapshot.extent import Gap, dense_span


@pytest.mark.parametrize(
    ("least", "greatest", "rows", "expected"),
    [
        (("1",), ("10",), 2, (1, 10)),
        (("1",), ("11",), 2, None),
        (("-5",), ("-5",), 1, (-5, -5)),
        (None, ("10",), 10, None),
        ((None,), ("10",), 10, None),
        (("11",), ("10",), 10, None),
        (("1",), (None,), 10, None),
    ],
)
def test_keys_are_dense_if_a_fifth_of_the_values_are_used(least, greatest, rows, expected):
    assert dense_span(least, greatest, rows) == expected


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        (Gap(Range()), "everything"),
        (Gap(Range(None, ("a", None))), "keys up to (a, NULL)"),
        (Gap(Range(("7",))), "keys after (7)"),
        (Gap(Range(("7",), ("9",))), "keys after (7) up to (9)"),
        (Gap(None, (("7",), ("9",))), "2 rows under single keys"),
    ],
)
def test_a_gap_says_what_it_is(gap, expected):
    assert str(gap) == expected
