"""A turn is as large as the sink takes in some seconds."""

from __future__ import annotations

from engine.job.turn_size import TurnSize


def test_a_slow_turn_makes_the_next_ones_smaller_until_they_take_seconds():
    size, rate = TurnSize(), 64 / 320
    for _turn in range(10):
        size = size.after_turn(64 * size.share / rate)

    assert 2.5 <= 64 * size.share / rate <= 10


def test_a_sink_that_is_fast_again_gets_large_ones():
    size = TurnSize(0.01)
    for _turn in range(10):
        size = size.after_turn(0.1)

    assert size == TurnSize()


def test_one_that_failed_is_tried_in_halves_and_never_vanishes():
    size = TurnSize()
    halved = size.after_failure()
    for _turn in range(50):
        size = size.after_failure()

    assert halved.share == 0.5
    assert 0 < size.share < 0.01
