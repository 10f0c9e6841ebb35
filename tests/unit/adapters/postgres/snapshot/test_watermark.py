"""When a window may close: asking only looks, pushing has the server flush its log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from adapters.postgres.snapshot.watermark import VisibilityWatermark
from engine.model import Position

if TYPE_CHECKING:
    from adapters.postgres.snapshot.watermark import ExportedSnapshot

BEFORE, BEHIND = Position((99, 0)), Position((100, 0))


class Flushes:
    """Counts how often the log is flushed."""

    def __init__(self) -> None:
        self.count = 0

    def flush_log(self) -> None:
        self.count += 1


class Waiting:
    """A watermark at 100, and the clock that it looks at."""

    def __init__(self) -> None:
        self.now_s, self.flushes = 0.0, Flushes()
        held = cast("ExportedSnapshot", SimpleNamespace(exported=SimpleNamespace(horizon=100)))
        self.watermark = VisibilityWatermark(held, cast("Any", self.flushes), lambda: self.now_s)


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


def test_asking_never_flushes(waiting):
    waiting.now_s = 60.0

    assert [waiting.watermark.reached(at) for at in (BEFORE, BEFORE, BEHIND)] == [False, False, True]
    assert waiting.flushes.count == 0


def test_a_log_that_stays_short_of_it_is_flushed_once_a_second(waiting):
    counts = []
    for now_s in (0.0, 0.05, 0.06, 1.0, 1.1):
        waiting.now_s = now_s
        waiting.watermark.push(BEFORE)
        counts.append(waiting.flushes.count)

    assert counts == [0, 1, 1, 1, 2]


def test_a_log_that_has_passed_it_is_not_flushed(waiting):
    waiting.now_s = 60.0
    waiting.watermark.push(BEHIND)

    assert waiting.flushes.count == 0
