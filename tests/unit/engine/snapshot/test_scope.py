"""From the ranges of a signal to what is read: disjoint, in order, with ends of their own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import SignalError
from engine.model import Range, Scope, Stretch
from engine.snapshot.scope import RankedKey, ScopedCollection, ranges_of

_BOUNDS = st.none() | st.integers(0, 9)
_PAIR = st.tuples(_BOUNDS, _BOUNDS).filter(lambda pair: None in pair or (pair[0] or 0) < (pair[1] or 0))
_PAIRS = st.lists(_PAIR, max_size=5)


def scope(*pairs: tuple[int | None, int | None]) -> tuple[Scope, list[RankedKey]]:
    def bound(key: int | None) -> tuple[str, ...] | None:
        return None if key is None else (str(key),)

    stretches = tuple(Stretch(bound(start), bound(end)) for start, end in pairs)
    bounds = [key for pair in pairs for key in pair if key is not None]
    return Scope(stretches=stretches), [RankedKey((str(key),), key) for key in bounds]


def holds(part: Range, key: int) -> bool:
    low = -1 if part.after is None else int(part.after[0] or 0) - part.holds_after
    return low < key <= int((part.upto or ("9",))[0] or 0) - part.lacks_upto


@given(_PAIRS)
def test_each_key_asked_for_is_in_one_range_and_no_other_key_is_in_any(pairs):
    ranges = ranges_of(*scope(*pairs), ("9",))

    for key in range(10):
        asked = any((start is None or start <= key) and (end is None or key < end) for start, end in pairs)
        assert sum(holds(part, key) for part in ranges) == asked


@given(_PAIRS)
def test_the_ranges_are_in_order_and_do_not_touch(pairs):
    ranges = ranges_of(*scope(*pairs), ("9",))
    ends = [int((part.upto or ("9",))[0] or 0) for part in ranges]
    starts = [int((part.after or ("-1",))[0] or 0) for part in ranges]

    assert all(end < start for end, start in zip(ends, starts[1:], strict=False))


@pytest.mark.parametrize("pair", [(5, 5), (7, 5)])
def test_a_range_that_can_t_hold_a_key_is_refused_by_its_number(pair):
    with pytest.raises(SignalError) as caught:
        ranges_of(*scope((1, 2), pair), ("9",))

    assert str(caught.value) == "entry 2 of 'ranges' is empty: its 'from' is not before its 'to'"


def test_rows_are_estimated_where_keys_are_dense():
    dense, sparse = ScopedCollection(500, ("999",), (0, 999)), ScopedCollection(500, ("999",))

    assert dense.inside(*scope((0, 200), (900, None))).rows == 150
    assert sparse.inside(*scope((0, 200))).rows == 500
    assert dense.at([("1",), ("2",)]).rows == 2


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        ((None, None), Range()),
        ((5, None), Range(("5",), ("5",), holds_after=True, lacks_upto=True)),
        ((None, 5), Range(None, ("5",), lacks_upto=True)),
    ],
)
def test_in_an_empty_collection_there_is_a_range_to_look_at(pair, expected):
    assert ScopedCollection(0, None).inside(*scope(pair)).ranges == (expected,)


def test_behind_the_greatest_key_there_is_an_empty_range_to_look_at():
    behind = Range(("7",), ("7",), holds_after=True, lacks_upto=True)

    assert ScopedCollection(5, ("6",), last=6).inside(*scope((7, None))).ranges == (behind,)
    assert ScopedCollection(5, ("6",), last=6).inside(*scope((6, None))).ranges == (
        Range(("6",), ("6",), holds_after=True),
    )
