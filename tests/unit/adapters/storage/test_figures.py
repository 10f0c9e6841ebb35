"""The figures file: written beside the turns, only while the lease is held, and never missed by anybody."""

from __future__ import annotations

import msgspec
import pytest

from adapters.storage.directory import LocalStorage
from adapters.storage.figures import FILE, Figures, FiguresFile
from engine.errors import LeaseLost
from engine.job.reports.observation import Observation
from engine.job.saved.state import State
from engine.model import Position


class Nothing:
    """A thread that is never started; a test takes its steps."""

    def join(self, timeout: float | None = None) -> None:
        pass


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(tmp_path)


def file(storage, check=lambda: None):
    return FiguresFile(storage, lambda _at: "0/5", lambda: 4096, check, start=lambda _run, _name: Nothing())


def seen(turn, events, clock_s):
    return Observation(State(turn, Position((5, 0))), events, 0.25, 1000.0 + clock_s, None, clock_s)


def written(storage):
    return msgspec.json.decode(storage.read(FILE), type=Figures)


def test_all_of_a_turn_is_written(storage):
    figures = file(storage)
    figures(seen(1, 10, 0.0))
    figures.write()

    assert written(storage) == Figures(
        at_s=1000.0, turn=1, position="0/5", events=10, lag_s=0.25, kept_bytes=4096
    )


def test_the_rate_is_that_since_the_figures_before(storage):
    figures = file(storage)
    figures(seen(1, 10, 0.0))
    figures.write()
    figures(seen(2, 30, 1.0))
    figures(seen(3, 70, 2.0))
    figures.write()

    assert (written(storage).events, written(storage).events_per_s) == (110, 50.0)


def test_without_a_turn_nothing_is_written(storage):
    figures = file(storage)
    figures.write()
    assert not storage.exists(FILE)

    figures(seen(1, 10, 0.0))
    figures.write()
    storage.delete(FILE)
    figures.write()
    assert not storage.exists(FILE)


def test_the_end_writes_the_last_turn(storage):
    figures = file(storage)
    figures(seen(1, 10, 0.0))
    figures.close()

    assert written(storage).turn == 1


def test_a_job_without_the_lease_writes_nothing(storage):
    def lost():
        raise LeaseLost("taken over")

    figures = file(storage, lost)
    figures(seen(1, 10, 0.0))
    figures.close()

    assert not storage.exists(FILE)


def test_a_storage_that_fails_ends_nothing(storage, tmp_path):
    figures = file(storage)
    figures(seen(1, 10, 0.0))
    storage._root = tmp_path / "gone"

    figures.close()
