"""Lines that measured the same, and what they come to."""

from __future__ import annotations

import pytest

from tests.bench.results import Line, Spread, chosen, paired, results


def snapshot(per_s: int, **more: object) -> Line:
    line: Line = {"bench": "snapshot", "table": "wide", "rows": 10, "sink": "null", "schemas": False}
    return line | {"per_s": per_s, "ratio": per_s / 1000} | more


def test_the_median_of_five_runs_is_neither_their_mean_nor_their_last() -> None:
    (found,) = results([snapshot(rate) for rate in (100, 500, 200, 900, 300)])

    assert found.runs == 5
    assert found.measured["per_s"] == Spread(100, 300, 900)
    assert found.measured["ratio"] == Spread(0.1, 0.3, 0.9)


def test_an_even_number_of_runs_has_its_median_between_two() -> None:
    (found,) = results([snapshot(100), snapshot(200)])

    assert found.mid("per_s") == 150


@pytest.mark.parametrize(
    "other",
    [{"table": "customers"}, {"rows": 20}, {"sink": "files"}, {"schemas": True}, {"at_once": 1}],
)
def test_lines_that_measured_something_else_are_another_result(other: Line) -> None:
    found = results([snapshot(100), snapshot(300, **other), snapshot(200)])

    assert [(result.runs, result.mid("per_s")) for result in found] == [(2, 150), (1, 300)]


def test_what_was_measured_is_no_measurement() -> None:
    (found,) = results([snapshot(100)])

    assert found.what == {"bench": "snapshot", "table": "wide", "rows": 10, "sink": "null", "schemas": False}
    assert found.measured.keys() == {"per_s", "ratio"}


def test_results_are_chosen_by_their_fields_whatever_else_they_say() -> None:
    found = results([snapshot(100), snapshot(200, sink="files"), {"bench": "idle", "cpu_percent": 1.0}])

    assert [result.mid("per_s") for result in chosen(found, bench="snapshot", sink="files")] == [200]
    assert chosen(found, bench="stream") == []


def test_two_measurements_are_compared_run_by_run() -> None:
    # the machine slows down by the half from run to run; the ratio stays
    lines = [snapshot(rate) for rate in (800, 400, 200)]
    lines += [snapshot(rate, sink="files") for rate in (600, 300, 150)]

    assert paired(lines, "per_s", {"sink": "files"}, {"sink": "null"}) == Spread(0.75, 0.75, 0.75)


def test_what_was_not_measured_is_not_compared() -> None:
    assert paired([snapshot(100)], "per_s", {"sink": "files"}, {"sink": "null"}) is None
