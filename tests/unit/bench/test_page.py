"""The page of results."""

from __future__ import annotations

from tests.bench.page import bars, figure, page, spread_text, table
from tests.bench.results import Line, Spread

LINES: list[Line] = [
    {"bench": "snapshot", "table": "wide", "rows": 2_000_000, "sink": "null", "schemas": False}
    | {"per_s": rate, "limit_per_s": 700_000, "ratio": rate / 700_000, "cpu_ratio": 1.4}
    | {"cpu_s_per_million": 1.4, "limit_cpu_s_per_million": 1.0}
    for rate in (400_000, 350_000, 300_000)
]
LINES += [
    {"bench": "idle", "sink": "files", "seconds": 15.0, "cpu_percent": 2.5, "database_cpu_percent": 0.4},
    {"bench": "latency", "table": "latency", "writes_per_s": 1000, "snapshot": True, "sink": "files"}
    | {"p50_ms": 16.4, "p99_ms": 43.0, "events": 15000},
    {"bench": "memory", "table": "wide", "rows": 30_000_000, "sink": "null", "peak_mib": 1024}
    | {"driver_mib": 200, "jvm_mib": 600, "workers_mib": 224, "per_s": 300_000},
    {"bench": "tables", "table": "snapshot", "tables": 1000, "rows": 100_000, "sink": "null"}
    | {"seconds": 12.5, "jobs": 3, "transactions": 90, "per_s": 8000, "limit_per_s": 90_000, "ratio": 0.09},
    {"bench": "peers", "case": "snapshot", "table": "wide", "rows": 1_000_000, "peer": "3.6.1.Final"}
    | {"sink": "null", "per_s": 400_000, "peer_per_s": 40_000, "ratio": 10.0, "chunk": 20_000},
]


def test_each_part_of_the_page_has_its_figures() -> None:
    text = page(LINES, {"date": "2026-11-21", "machine": "2 cores"})

    for wanted in (
        "- date: 2026-11-21\n- machine: 2 cores\n",
        "| snapshot of 12 columns, of COPY | at least 0.50 | 0.50 | yes |",
        "| backlog of the wide table, of pg_recvlogical | at least 0.50 | - | not measured |",
        "| snapshot wide into null | 2,000,000 | 350,000 (300,000 to 400,000) | 700,000 (",
        "| 1,000 | yes | files | 16.4 | 43 |",
        "Idle: 2.50% of one core, and 0.40% in the database.",
        "| 30,000,000 | wide | 1,024 | 200 | 600 | 224 | 300,000 |",
        "| snapshot | 1,000 | 100,000 | 12.5 | 3 | 90 |",
        "| snapshot wide, 3.6.1.Final, chunk 20,000 | 1,000,000 | 400,000 | 40,000 | 10 |",
    ):
        assert wanted in text


def test_what_was_not_measured_has_no_part() -> None:
    text = page(LINES[:1], {})

    assert "## Throughput" in text
    assert "## Memory" not in text
    assert "## Beside Debezium" not in text


def test_a_range_is_told_of_more_than_one_run_only() -> None:
    spread = Spread(1.0, 2.5, 1234.5)

    assert spread_text(spread, 1) == "2.50"
    assert spread_text(spread, 5) == "2.50 (1 to 1,234)"


def test_a_figure_has_the_digits_that_say_something() -> None:
    assert [figure(number) for number in (0.384, 12.345, 999.94, 262_144.4, 7, None)] == [
        "0.38",
        "12.3",
        "999.9",
        "262,144",
        "7",
        "-",
    ]


def test_a_table_has_a_line_of_dashes_below_its_heads() -> None:
    assert table(("a", "b"), [("1", "2")]) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n"


def test_bars_are_as_long_as_their_values_and_cut_at_the_whole() -> None:
    _, _, title, half, more, _ = bars("of the limit", [("half", 0.5), ("more", 3.0)]).splitlines()

    assert title == "of the limit"
    assert (half.count("█"), more.count("█")) == (20, 40)
    assert half.index("0.50") == more.index("3")
