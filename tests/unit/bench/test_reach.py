"""Whether figures reach what they are to reach."""

from __future__ import annotations

import pytest

from tests.bench.reach import Verdict, at_least, at_most, verdicts
from tests.bench.results import Line

PLAIN: Line = {"rows": 10, "sink": "null", "schemas": False}


def snapshot(table: str, per_s: int, ratio: float, **more: object) -> Line:
    line = {"bench": "snapshot", "table": table, **PLAIN}
    return line | {"per_s": per_s, "ratio": ratio, "cpu_ratio": 1.2} | more


def verdict(lines: list[Line], goal: str) -> Verdict:
    (found,) = (finding for finding in verdicts(lines) if finding.goal == goal)
    return found


@pytest.mark.parametrize(("figure", "reached"), [(0.5, True), (0.49, False), (None, None)])
def test_a_lower_bound_may_be_met_exactly(figure: float | None, *, reached: bool | None) -> None:
    assert at_least("a goal", 0.5, figure).reached is reached


@pytest.mark.parametrize(("figure", "reached"), [(1.5, True), (1.51, False), (None, None)])
def test_an_upper_bound_may_be_met_exactly(figure: float | None, *, reached: bool | None) -> None:
    assert at_most("a goal", 1.5, figure).reached is reached


def test_nothing_measured_reaches_nothing() -> None:
    assert {finding.reached for finding in verdicts([])} == {None}


def test_the_median_of_the_runs_decides() -> None:
    lines = [snapshot("wide", 300_000, ratio) for ratio in (0.3, 0.52, 0.9)]

    found = verdict(lines, "snapshot of 12 columns, of COPY")
    assert (found.figure, found.reached) == (0.52, True)


def test_a_file_sink_is_compared_with_the_null_sink_of_its_own_table() -> None:
    lines = [
        snapshot("wide", 400_000, 0.5),
        snapshot("wide", 200_000, 0.3, sink="files"),
        snapshot("customers", 800_000, 0.3),
        snapshot("customers", 600_000, 0.2, sink="files"),
    ]

    of_wide = verdict(lines, "file sink of the wide table, of the null sink without schemas")
    of_customers = verdict(lines, "file sink of the customers table, of the null sink without schemas")
    assert (of_wide.figure, of_wide.reached) == (0.5, False)
    assert (of_customers.figure, of_customers.reached) == (0.75, True)


def test_debezium_s_best_setting_is_the_one_that_counts() -> None:
    peer = {"bench": "peers", "case": "snapshot", "table": "wide", "peer": "3.6.1.Final"}
    lines = [{**peer, "chunk": 1024, "ratio": 20.0}, {**peer, "chunk": 20_000, "ratio": 9.0}]

    found = verdict(lines, "the same, times Debezium 3.6.1 at its best setting")
    assert (found.figure, found.reached) == (9.0, False)


def test_transactions_of_every_size_are_to_be_alike() -> None:
    stream = {"bench": "stream", "table": "wide", "rows": 10, "sink": "null", "ratio": 1.0}
    sizes = {100: 200_000, 1: 90_000, 0: 150_000}
    lines = [{**stream, "at_once": size, "per_s": rate} for size, rate in sizes.items()]

    found = verdict(lines, "transactions of 1, 100 and all rows, fastest by slowest")
    assert found.figure == pytest.approx(200 / 90)
    assert found.reached is False
    assert verdict(lines[:2], found.goal).reached is None


def test_memory_has_to_be_flat_as_well_as_small() -> None:
    lines = [{"bench": "memory", "rows": rows, "peak_mib": mib} for rows, mib in ((1, 1000), (30, 1500))]

    assert verdict(lines, "peak memory in MiB").reached is True
    assert verdict(lines, "peak memory, largest table by smallest").reached is False


def test_latency_beside_a_snapshot_is_compared_with_that_at_the_same_rate() -> None:
    fields = (("writes_per_s", "snapshot", "p99_ms"), (100, False, 10), (100, True, 90), (1000, False, 100))
    names, *rows = (*fields, (1000, True, 140))
    lines = [
        {"bench": "latency", "sink": "files", "p50_ms": 5, **dict(zip(names, row, strict=True))}
        for row in rows
    ]

    found = verdict(lines, "p99 during a snapshot, times that without")
    assert found.figure == pytest.approx(1.4)


def test_a_job_or_a_query_for_each_table_is_too_many() -> None:
    line = {"bench": "tables", "table": "span", "tables": 1000, "rows": 10_000, "sink": "null"}
    goal = "span that touches them all, jobs and transactions a table"

    assert verdict([{**line, "seconds": 1, "jobs": 2, "transactions": 30}], goal).reached is True
    assert verdict([{**line, "seconds": 1, "jobs": 2, "transactions": 1030}], goal).reached is False


def test_a_verification_has_to_keep_up_with_a_snapshot_in_flat_memory() -> None:
    lines: list[Line] = [
        {"bench": "verify", "table": "wide", "rows": rows, "of_snapshot": ratio, "verified_mib": mib}
        for rows, ratio, mib in ((1_000_000, 0.6, 1000), (10_000_000, 0.5, 1300))
    ]

    assert verdict(lines, "verification of equal rows, of their snapshot").figure == 0.5
    assert verdict(lines, "its peak memory, largest table by smallest").reached is False


def test_a_certificate_is_compared_with_a_snapshot_without_one() -> None:
    line = {"bench": "certificate", "table": "wide", "rows": 10, "sink": "files"}
    lines: list[Line] = [
        line | {"certificate": "off", "cpu_us_a_row": 2.0},
        line | {"certificate": "on", "cpu_us_a_row": 2.1},
    ]

    assert verdict(lines, "CPU of a snapshot with its certificate, of one without").figure == 1.05
