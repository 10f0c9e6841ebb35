"""What a certificate says of ranges: few, in order, and nothing lost when they are put together."""

from __future__ import annotations

import pytest

from engine.verify.certified_ranges import (
    MOST_RANGES,
    CertifiedRange,
    CertifiedRanges,
    Frontier,
    shown,
)

SEED = "seed"


def sent(*numbers: int, seed: str = SEED) -> CertifiedRanges:
    """Ranges `(number, number + 1]`, of which each has read 3 rows and emitted 2."""
    parts = (
        CertifiedRange(
            3,
            2,
            shown(number),
            Frontier(str(number)),
            Frontier(str(number)),
            (str(number),),
            (str(number + 1),),
        )
        for number in numbers
    )
    return CertifiedRanges(seed, tuple(parts))


def many(count: int) -> CertifiedRanges:
    together = CertifiedRanges(SEED)
    for number in range(count):
        together = together.with_next(sent(number))
    return together


@pytest.mark.parametrize("count", [0, 1, MOST_RANGES, MOST_RANGES + 1, 1000])
def test_any_number_of_windows_gives_few_ranges_that_have_all_rows(count):
    together = many(count)

    assert len(together.ranges) <= MOST_RANGES
    assert (together.read, together.emitted) == (3 * count, 2 * count)
    assert sum(int(part.sum or "", 16) for part in together.ranges) == sum(range(count))


def test_ranges_that_are_put_together_are_still_next_to_each_other():
    ranges = many(1000).ranges

    assert [part.after for part in ranges[1:]] == [part.upto for part in ranges[:-1]]
    assert (ranges[0].after, ranges[-1].upto) == (("0",), ("1000",))


def test_a_range_of_several_windows_names_the_first_and_the_last():
    first, *_others, last = many(1000).ranges

    assert (first.first.position, last.last.position) == ("0", "999")


def test_the_open_end_of_a_range_stays_open():
    bounded = sent(1).ranges[0]
    part = CertifiedRange(1, 1, shown(1), after=("2",), upto=("3",), lacks_upto=True)

    both = bounded.with_next(part)

    assert (both.after, both.upto, both.lacks_upto) == (("1",), ("3",), True)


def test_sums_under_another_seed_are_not_added():
    assert many(2).with_next(sent(5, seed="another")) == sent(5, seed="another")


def test_a_part_without_a_sum_leaves_the_whole_without_one():
    part = CertifiedRange(1, 1, None)

    assert CertifiedRange(1, 1, shown(1)).with_next(part).sum is None


def test_rows_under_single_keys_are_counted_apart():
    again = CertifiedRanges(SEED, again=CertifiedRange(1, 1, shown(4)))

    together = sent(1).with_next(again).with_next(again)

    assert together.again == CertifiedRange(2, 2, shown(8))
    assert together.read == 5
