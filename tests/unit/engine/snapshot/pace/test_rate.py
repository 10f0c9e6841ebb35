from __future__ import annotations

import pytest

from engine.snapshot.pace.rate import Rate, reading_s

WINDOW_S = 2.0
FIRST_ROWS = 200_000


def windows(
    rate: Rate, count: int, *, fixed_s: float, per_s: float, first_s: float = 0.0
) -> tuple[Rate, int]:
    """Read so many windows, sized by the rate, on a machine of these times; the rows of the last."""
    rows = 0
    for number in range(count):
        rows = int(rate.rows_per_s * WINDOW_S) or FIRST_ROWS
        rate = rate.learned(rows, fixed_s + rows / per_s + (first_s if number == 0 else 0.0))
    return rate, rows


@pytest.mark.parametrize("fixed_s", [0.1, 0.5, 2.5, 3.0])
@pytest.mark.parametrize("first_s", [0.0, 20.0])
def test_a_window_does_not_shrink_because_of_its_fixed_time(fixed_s: float, first_s: float):
    _, rows = windows(Rate(), 12, fixed_s=fixed_s, per_s=100_000, first_s=first_s)

    assert rows > 0.3 * WINDOW_S * 100_000


@pytest.mark.parametrize("fixed_s", [0.1, 2.5])
@pytest.mark.parametrize("per_s", [10_000, 100_000])
def test_a_window_stays_short(fixed_s: float, per_s: float):
    _, rows = windows(Rate(), 12, fixed_s=fixed_s, per_s=per_s)

    assert rows / per_s < 2.1 * WINDOW_S + 2 * fixed_s


def test_a_machine_that_becomes_busy_does_not_end_with_almost_no_rows():
    rate, _ = windows(Rate(), 12, fixed_s=0.2, per_s=200_000)
    _, rows = windows(rate, 30, fixed_s=3.0, per_s=50_000)

    assert rows > 50_000


def test_a_last_small_window_does_not_lower_the_rate():
    rate = Rate().learned(200_000, 2.0)

    assert rate.learned(100, 1.0).rows_per_s == rate.rows_per_s


def test_one_small_window_alone_tells_nothing():
    assert not Rate().learned(100, 0.5).rows_per_s


@pytest.mark.parametrize(
    ("waited_s", "longest_s", "expected"),
    [
        pytest.param(0.1, 40.0, WINDOW_S, id="no wait to speak of"),
        pytest.param(5.0, 40.0, 20.0, id="several times the wait"),
        pytest.param(60.0, 40.0, 40.0, id="never longer than the longest"),
        pytest.param(5.0, 0.0, WINDOW_S, id="a window that holds something in the database stays short"),
    ],
)
def test_a_window_that_waits_long_is_read_longer(waited_s: float, longest_s: float, expected: float):
    assert reading_s(WINDOW_S, waited_s, longest_s) == expected
