"""Which rows of an initial snapshot say that they are the first or the last."""

from __future__ import annotations

import pytest

from engine.marks import Mark, Marks, marks

FIRST, LAST = Mark.FIRST, Mark.LAST
FIRST_OF, LAST_OF = Mark.FIRST_OF_COLLECTION, Mark.LAST_OF_COLLECTION


@pytest.mark.parametrize(
    ("place", "expected"),
    [((1, 3), Marks(FIRST, LAST_OF)), ((2, 3), Marks(FIRST_OF, LAST_OF)), ((3, 3), Marks(FIRST_OF, LAST))],
)
def test_a_table_s_rows_by_its_place(place, expected):
    assert marks(place, opens=True, ends=True) == expected


def test_rows_in_the_middle_of_a_table_have_none():
    assert marks((1, 1), opens=False, ends=False) == Marks()
    assert marks((1, 1), opens=True, ends=False) == Marks(first=FIRST)
    assert marks((1, 1), opens=False, ends=True) == Marks(last=LAST)


@pytest.mark.parametrize(
    ("both", "expected"),
    [
        (Marks(FIRST, LAST), LAST),
        (Marks(FIRST_OF, LAST), LAST),
        (Marks(FIRST, LAST_OF), FIRST),
        (Marks(FIRST_OF, LAST_OF), LAST_OF),
        (Marks(FIRST_OF, None), FIRST_OF),
        (Marks(None, None), None),
    ],
)
def test_a_row_that_is_several_at_once_says_the_strongest(both, expected):
    assert both.single == expected
