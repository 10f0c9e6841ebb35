"""How long a marker is waited for."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from adapters.verify.tables.marker import LONGEST_S, Marker
from engine.errors import SourceError
from engine.model import CollectionId
from tests.hand_clock import HandClock

if TYPE_CHECKING:
    from collections.abc import Iterator

MARKERS = CollectionId(("public", "markers"))


class Waits:
    """The source, and moments of a comparison that nobody gives up."""

    def __init__(self) -> None:
        self.hands, self.inserted = HandClock(), list[str]()
        self.marker = Marker(MARKERS, "shop.public.markers", self.insert, self.hands.clock)

    def insert(self, collection: CollectionId, row_id: str) -> None:
        assert collection == MARKERS
        self.inserted.append(row_id)

    def moments(self, pause_s: float) -> Iterator[None]:
        for _ in count():
            yield
            self.hands.sleep(pause_s)


@pytest.fixture
def waits() -> Waits:
    return Waits()


def test_each_marker_has_an_id_of_its_own(waits):
    assert [waits.marker.insert(), waits.marker.insert()] == ["verify-1", "verify-2"]


def test_a_marker_that_the_target_gets_is_waited_for(waits):
    answers = iter([False, False, True])
    waits.marker.await_there(lambda row_id: row_id == "verify-1" and next(answers), waits.moments)

    assert waits.inserted == ["verify-1"]
    assert 0 < waits.hands.time_s < 1


def test_a_marker_that_never_comes_ends_the_wait(waits):
    with pytest.raises(SourceError, match="has not got the row 'verify-1' in 600 s"):
        waits.marker.await_there(lambda _row_id: False, waits.moments)

    assert LONGEST_S < waits.hands.time_s < LONGEST_S + 1


def test_so_does_a_marker_that_the_stream_does_not_carry(waits):
    own: Any = None  # has no newer turn, so it is not asked

    with pytest.raises(SourceError, match="has not carried the row 'verify-1' in 600 s"):
        waits.marker.turn(waits.marker.insert(), own, 5, lambda: 5, waits.moments)
