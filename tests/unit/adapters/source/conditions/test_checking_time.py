"""The time that signals may take of the server: checks stop when it is spent, and it comes back slowly."""

from __future__ import annotations

from contextlib import suppress

import pytest

from adapters.source.conditions.checking_time import CheckingTime
from engine.errors import TableBusy
from engine.model import CollectionId

T = CollectionId(("public", "t"))


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


def check(checking, clock, seconds):
    """Whether there was time to check something."""
    try:
        with checking.of(T):
            clock.now_s += seconds
    except TableBusy:
        return False
    return True


def test_quick_checks_are_never_held_up():
    clock = Clock()
    checking = CheckingTime(clock)

    for _ in range(1_000):
        assert check(checking, clock, 0.005)
        clock.now_s += 0.05


def test_slow_checks_take_a_tenth_of_the_time_however_many_there_are():
    clock = Clock()
    checking = CheckingTime(clock)
    taken_s = 0.0
    while clock.now_s < 3_700:
        if check(checking, clock, 6.0):
            taken_s += 6.0
        else:
            clock.now_s += 0.5

    assert 300 < taken_s < 400


def test_who_comes_too_late_hears_for_which_table():
    clock = Clock()
    checking = CheckingTime(clock)
    assert check(checking, clock, 11.0)

    with pytest.raises(TableBusy) as refused, checking.of(T):
        pass

    assert refused.value.collection == T


def test_a_check_that_fails_counts_as_well():
    clock = Clock()
    checking = CheckingTime(clock)
    with suppress(ValueError), checking.of(T):
        clock.now_s += 11.0
        int("x")

    assert not check(checking, clock, 0.0)
