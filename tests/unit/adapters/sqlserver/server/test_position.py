"""Places in the log: text that sorts as the log does, positions of several databases, arithmetic."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adapters.sqlserver.server.position import (
    ZERO,
    LogPosition,
    after_lsn,
    lsn_literal,
    lsn_of,
    lsn_of_hex,
    parse_position,
    position_of,
    positions_of,
)
from engine.model import Position

LSNS = st.integers(0, 2**80 - 1).map(lambda number: lsn_of_hex(f"{number:020x}"))
# A change after which nothing can come is how a whole commit is written.
CHANGES = LSNS.filter(lambda lsn: lsn != LogPosition().change)
INSIDE = st.builds(LogPosition, LSNS, st.integers(0, 2**31 - 1), CHANGES, st.integers(0, 9))
PLACES = st.one_of(LSNS.map(LogPosition), INSIDE)


@given(st.binary(min_size=10, max_size=10), st.binary(min_size=10, max_size=10))
def test_texts_sort_as_the_lsns_do(one: bytes, other: bytes):
    assert (lsn_of(one) < lsn_of(other)) == (one < other)


def test_an_lsn_is_shown_as_the_documents_do():
    assert lsn_of(bytes.fromhex("0000002500000d9800a2")) == "00000025:00000d98:00a2"


def test_hexadecimal_digits_of_either_case_are_the_same_lsn():
    assert lsn_of_hex("0000002500000D9800A2") == "00000025:00000d98:00a2"


@given(PLACES)
def test_a_place_is_read_back_from_its_text(position: LogPosition):
    assert parse_position(str(position)) == position


def test_a_place_of_an_older_state_is_before_all_changes_that_have_a_command():
    commit, change = "00000025:00000d98:00a2", "00000025:00000d98:0003"
    saved = Position((commit, change, 4, commit, "ffffffff:ffffffff:ffff", 9))

    assert positions_of(saved) == (LogPosition(commit, 0, change, 4), LogPosition(commit))
    assert parse_position(f"{commit}/{change}/4") == LogPosition(commit, 0, change, 4)
    assert LogPosition(commit, 0, change, 4) < LogPosition(commit, 1, ZERO, 1)


@given(st.lists(PLACES, min_size=1, max_size=4))
def test_a_position_has_a_place_for_each_database(positions: list[LogPosition]):
    assert positions_of(position_of(positions)) == tuple(positions)


@given(INSIDE)
def test_a_commit_streamed_in_part_is_before_the_same_streamed_whole(position: LogPosition):
    assert position <= LogPosition(position.commit)
    assert position.whole == (position.change == "ffffffff:ffffffff:ffff")


@given(st.integers(0, 2**80 - 2))
def test_the_lsn_that_follows_is_undone_by_the_one_before(number: int):
    lsn = lsn_of_hex(f"{number:020x}")

    assert after_lsn(lsn) > lsn
    assert after_lsn(after_lsn(lsn), -1) == lsn


def test_nothing_is_before_the_first():
    assert after_lsn(ZERO, -1) == ZERO


def test_the_following_lsn_carries_over():
    assert after_lsn("00000025:00000d98:ffff") == "00000025:00000d99:0000"


def test_a_literal_is_binary():
    assert lsn_literal("00000025:00000d98:00a2") == "0x0000002500000d9800a2"
