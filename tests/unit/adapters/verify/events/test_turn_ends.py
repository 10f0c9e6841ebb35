"""Which turn has sent a record, by where the topic's partitions ended after each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.verify.events.turn_ends import TurnEnds, of_lines
from engine.errors import SourceError


@given(st.lists(st.lists(st.integers(0, 2), max_size=4), min_size=1, max_size=12))
def test_each_record_has_the_turn_that_sent_it_or_the_first_noted(sent):
    """Each turn sends records to some of three partitions. Turn 3 is the first that is noted."""
    ends, at = TurnEnds(), {0: 5, 1: 0, 2: 7}
    expected = {(partition, offset): 3 for partition, end in at.items() for offset in range(end)}
    ends.note(3, dict(at))
    for turn, partitions in enumerate(sent, 4):
        for partition in partitions:
            expected[partition, at[partition]] = turn
            at[partition] += 1
        ends.note(turn, dict(at))

    found = {(partition, offset): ends.turns_of(partition).of(offset)[0] for partition, offset in expected}
    assert found == expected
    assert ends.after(3 + len(sent)) == at
    assert ends.after(2) == {}


def test_a_topic_and_its_partitions_may_come_later():
    ends = TurnEnds()
    ends.note(1, {})
    ends.note(2, {0: 1})
    ends.note(3, {0: 1, 1: 2})

    assert ends.turns_of(1).of(0) == (3, 2)
    assert ends.turns_of(0).of(0) == (2, 1)


def test_a_topic_that_was_made_anew_is_said():
    ends = TurnEnds()
    ends.note(1, {0: 5})

    with pytest.raises(SourceError, match="recreated"):
        ends.note(2, {0: 4})


@pytest.mark.parametrize("damaged", ["[2,[[0,", "2", "[2,3]", '["b",[]]', "[2,[[0,1.5]]]", "\0\0", "\ufffd"])
def test_what_follows_a_damaged_line_is_lost(damaged):
    whole = ["[1,[[0,5]]]", "[3,[[0,6]]]"]

    assert of_lines(whole, 3).newest == 3
    found = of_lines([whole[0], damaged, whole[1]], 3)
    assert (found.newest, found.after(3)) == (1, {0: 5})
