"""Which integer keys are cut by arithmetic."""

from __future__ import annotations

import pytest

from engine.snapshot.extent import dense_span


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
