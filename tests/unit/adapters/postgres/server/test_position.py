"""Positions of PostgreSQL's log: what they are made of, and which are none."""

from __future__ import annotations

import pytest

from adapters.postgres.server.position import LAST_LSN, checked, lsn_of, parts_of, position_at, shown
from engine.model import Position
from engine.saved import read_position, saved_position


def test_a_position_tells_its_parts():
    inside = position_at(0x16B374D848, 3)

    assert (parts_of(inside), lsn_of(inside), shown(inside)) == (
        (0x16B374D848, 3),
        0x16B374D848,
        "16/B374D848",
    )
    assert position_at(0x16B374D848) < inside < position_at(0x16B374D849)


@pytest.mark.parametrize("order", [(-1, 0), (LAST_LSN + 1, 0), (1, -1), (1,), (1, 2, 3), ("1", 0), (True, 0)])
def test_what_is_no_position_is_refused(order: tuple[int | str, ...]):
    with pytest.raises((TypeError, ValueError)):
        checked(Position(order))


@pytest.mark.parametrize("position", [None, position_at(7, 1), Position(("82", "", 1))])
def test_a_saved_position_is_read_as_it_was(position: Position | None):
    assert read_position(saved_position(position)) == position


def test_a_text_is_no_saved_position():
    with pytest.raises(TypeError):
        read_position("82")
