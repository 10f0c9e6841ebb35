"""What bounds a snapshot, for costs and places that are easy to reckon."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.bench.scale_model import Costs, Place, predict

COSTS = Costs(
    database=1e-6, jvm=1e-6, worker=2e-6, driver=0.1e-6, sink=0.0,
    window_s=0.0, turn_s=0.1, slice_rows=1_000_000, window_rows=10_000_000,
)  # fmt: skip


@pytest.mark.parametrize(
    ("place", "rows_per_s", "bound"),
    [
        pytest.param(Place(1, 64, 2), 333_333, "executors", id="one executor"),
        pytest.param(Place(4, 64, 2), 1_333_333, "executors", id="four, in parallel"),
        pytest.param(Place(64, 2, 2), 2_000_000, "database", id="a small database"),
        pytest.param(Place(64, 64, 0.5), 5_000_000, "driver", id="a small driver"),
        pytest.param(Place(64, 64, 2), 10_000_000, "turns", id="one slice a turn"),
        pytest.param(Place(1, 0, 0, shared=2.0), 487_804, "cores", id="all on two cores"),
        pytest.param(
            Place(1, 0, 0, shared=8.0), 500_000, "slots", id="a task is as fast as its slowest part"
        ),
    ],
)
def test_the_scarcest_part_bounds(place, rows_per_s, bound):
    found = predict(COSTS, place)

    assert found.rows_per_s == pytest.approx(rows_per_s, rel=1e-3)
    assert found.bound == bound


def test_what_a_window_takes_once_is_spread_over_its_rows():
    found = predict(replace(COSTS, window_s=2.0), Place(1, 64, 2), window_s=2.0)

    assert found.rows_per_s == pytest.approx(333_333 / 2, rel=1e-3)


def test_windows_bound_once_their_bytes_are_read_in_no_time():
    found = predict(replace(COSTS, window_s=0.2, window_rows=100_000), Place(16, 64, 8))

    assert found.bound == "windows"
    assert found.rows_per_s < 100_000 / 0.2


def test_a_sink_bounds_by_its_cores():
    found = predict(replace(COSTS, sink=4e-6), Place(64, 64, 64, sink_cores=4))

    assert found.bound == "sink"
    assert found.rows_per_s == pytest.approx(1_000_000)
