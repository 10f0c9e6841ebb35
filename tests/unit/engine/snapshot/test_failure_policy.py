"""What is done about windows that can't be read: again, smaller, not at all."""

from __future__ import annotations

import pytest

from engine.model import CollectionId, Run, Target, Window
from engine.snapshot.failure_policy import FailureRecord, Remedy, YieldLimit

T = Target(CollectionId(("public", "t")))
CHUNK = 10


def window(*chunks: int) -> Window:
    return Window("w", tuple(Run(1, T, None, None, count) for count in chunks))


@pytest.mark.parametrize(
    ("trouble", "chunks", "expected"),
    [
        pytest.param(
            FailureRecord(), (8, 8), (FailureRecord(failures=1), Remedy.AGAIN), id="the first failure"
        ),
        pytest.param(
            FailureRecord(failures=2),
            (8, 8),
            (FailureRecord(rows=80, suspects=frozenset([1])), Remedy.SPLIT),
            id="each of several runs alone",
        ),
        pytest.param(
            FailureRecord(failures=2), (80,), (FailureRecord(rows=100), Remedy.SPLIT), id="one run, smaller"
        ),
        pytest.param(
            FailureRecord(rows=80), (8,), (FailureRecord(rows=10), Remedy.SPLIT), id="alone: smaller at once"
        ),
        pytest.param(
            FailureRecord(rows=10),
            (1,),
            (FailureRecord(failures=1, rows=10), Remedy.AGAIN),
            id="one chunk: again first",
        ),
        pytest.param(
            FailureRecord(failures=2, rows=10),
            (1,),
            (FailureRecord(rows=10, given_up=1), Remedy.GIVE_UP_RUN),
            id="one chunk: given up",
        ),
        pytest.param(
            FailureRecord(failures=2),
            (1,),
            (FailureRecord(rows=10, given_up=1), Remedy.GIVE_UP_RUN),
            id="never smaller",
        ),
        pytest.param(
            FailureRecord(failures=2, rows=10, given_up=2),
            (1,),
            (FailureRecord(rows=10), Remedy.GIVE_UP_COLLECTION),
            id="several chunks in a row",
        ),
    ],
)
def test_a_failure_has_its_remedy(trouble, chunks, expected):
    assert trouble.after_failure(window(*chunks), CHUNK, retries=2) == expected


@pytest.mark.parametrize(
    ("trouble", "chunks", "expected"),
    [
        (FailureRecord(), (8, 8), (FailureRecord(rows=80, suspects=frozenset([1])), Remedy.SPLIT)),
        (FailureRecord(), (80,), (FailureRecord(rows=100), Remedy.SPLIT)),
        (FailureRecord(), (1,), (FailureRecord(failures=1), Remedy.AGAIN)),
        (FailureRecord(failures=2, rows=10), (1,), (FailureRecord(rows=10, given_up=1), Remedy.GIVE_UP_RUN)),
    ],
)
def test_what_was_too_slow_is_read_in_smaller_windows_as_long_as_there_are_any(trouble, chunks, expected):
    assert trouble.after_failure(window(*chunks), CHUNK, retries=2, smaller=True) == expected


SUSPECTS = frozenset([1, 2])


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        (FailureRecord(), FailureRecord()),
        (FailureRecord(failures=2), FailureRecord()),
        (FailureRecord(rows=10, given_up=2), FailureRecord(rows=40)),
        (FailureRecord(rows=40), FailureRecord()),
        (FailureRecord(rows=40, suspects=SUSPECTS), FailureRecord(rows=100, suspects=frozenset([2]))),
        (FailureRecord(rows=100, suspects=frozenset([1])), FailureRecord()),
    ],
)
def test_what_goes_well_makes_the_next_larger_until_all_that_failed_together_were_read(trouble, expected):
    assert trouble.after_success(window(1), usual_rows=100) == expected


class TestYielding:
    def test_each_time_the_next_window_holds_half_as_much_down_to_a_chunk(self):
        first = YieldLimit().after_yield(window(16), CHUNK)
        second = first.after_yield(window(8), CHUNK)
        least = second.after_yield(window(1), CHUNK)

        assert [policy.rows for policy in (first, second, least)] == [80, 40, CHUNK]
        assert [policy.least(1000) for policy in (YieldLimit(), first)] == [1000, 80]

    def test_one_that_goes_well_lets_the_next_one_hold_a_quarter_more(self):
        assert YieldLimit(80).after_success(1000).rows == 100
        assert YieldLimit(900).after_success(1000) == YieldLimit()

    def test_it_is_no_use_once_windows_that_can_t_be_smaller_have_given_way_ten_times(self):
        yielding = YieldLimit()
        for _ in range(10):
            assert not yielding.hopeless
            yielding = yielding.after_yield(window(1), CHUNK)

        assert yielding.hopeless
        assert not yielding.after_success(1000).hopeless

    def test_a_window_that_can_be_smaller_is_never_in_vain(self):
        assert YieldLimit(CHUNK, in_vain=9).after_yield(window(1, 1), CHUNK).in_vain == 0
