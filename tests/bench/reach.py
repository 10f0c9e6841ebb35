"""What the figures are to reach, and whether these do. Pure: lines in, verdicts out.

A goal of which nothing was measured is told as such, never as reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench.results import chosen, paired, results

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.bench.results import Line, Result

_PLAIN = {"sink": "null", "schemas": False}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal, the bound it has, and the figure; None where it was not measured."""

    goal: str
    least: float | None
    most: float | None
    figure: float | None

    @property
    def reached(self) -> bool | None:
        """Whether the figure is within its bounds; None without a figure."""
        if self.figure is None:
            return None
        return (self.least is None or self.figure >= self.least) and (
            self.most is None or self.figure <= self.most
        )


def verdicts(lines: Sequence[Line]) -> list[Verdict]:
    """Every goal, in the order of the requirements."""
    found = results(lines)
    groups = (
        _snapshot(lines, found),
        _stream(found),
        _latency(lines, found),
        _rest(found),
        _others(found),
        _proof(lines, found),
    )
    return [verdict for group in groups for verdict in group]


def _snapshot(lines: Sequence[Line], found: list[Result]) -> list[Verdict]:
    wide = chosen(found, bench="snapshot", table="wide", **_PLAIN)
    customers = chosen(found, bench="snapshot", table="customers", **_PLAIN)
    peers = chosen(found, bench="peers", case="snapshot", table="wide", peer="3.6.1.Final")
    return [
        at_least("snapshot of 12 columns, of COPY", 0.5, _worst(wide, "ratio", min)),
        at_least("the same, rows/s", 200_000, _worst(wide, "per_s", min)),
        at_least("the same, times Debezium 3.6.1 at its best setting", 10, _worst(peers, "ratio", min)),
        at_least("snapshot of 4 columns, rows/s", 500_000, _worst(customers, "per_s", min)),
        *(
            at_least(
                f"{of} of the {table} table, of the null sink without schemas",
                0.6,
                _beside(lines, table, **other),
            )
            for table in ("wide", "customers")
            for of, other in (("file sink", {"sink": "files"}), ("schemas", {"schemas": True}))
        ),
        *(
            at_most(f"the database's CPU, {table} table, of COPY's", 1.5, _worst(found_of, "cpu_ratio", max))
            for table, found_of in (("wide", wide), ("customers", customers))
        ),
    ]


def _beside(lines: Sequence[Line], table: str, **other: object) -> float | None:
    base = {"bench": "snapshot", "table": table, **_PLAIN}
    ratio = paired(lines, "per_s", base | other, base)
    return ratio.mid if ratio else None


def _stream(found: list[Result]) -> list[Verdict]:
    usual = chosen(found, bench="stream", at_once=100, sink="null")
    sized = [result.mid("per_s") for result in chosen(found, bench="stream", table="wide", sink="null")]
    return [
        *(
            at_least(
                f"backlog of the {table} table, of pg_recvlogical",
                0.5,
                _worst(chosen(usual, table=table), "ratio", min),
            )
            for table in ("wide", "customers")
        ),
        at_most(
            "transactions of 1, 100 and all rows, fastest by slowest",
            2,
            max(sized) / min(sized) if len(sized) > 2 else None,
        ),
    ]


def _latency(lines: Sequence[Line], found: list[Result]) -> list[Verdict]:
    alone = {"bench": "latency", "writes_per_s": 1000, "sink": "files", "snapshot": False}
    times = paired(lines, "p99_ms", alone | {"snapshot": True}, alone)
    idle = chosen(found, bench="idle")
    return [
        at_most("latency at 1,000 writes/s, p50 in ms", 300, _worst(chosen(found, **alone), "p50_ms", max)),
        at_most("the same, p99 in ms", 1000, _worst(chosen(found, **alone), "p99_ms", max)),
        at_most("p99 during a snapshot, times that without", 1.5, times.mid if times else None),
        at_most("idle, percent of one core", 3, _worst(idle, "cpu_percent", max)),
    ]


def _rest(found: list[Result]) -> list[Verdict]:
    peaks = [result.mid("peak_mib") for result in chosen(found, bench="memory")]
    spans = chosen(found, bench="tables", table="span")
    many = chosen(found, bench="tables", table="snapshot")
    return [
        at_most("peak memory in MiB", 2048, max(peaks, default=None)),
        at_most(
            "peak memory, largest table by smallest",
            1.25,
            max(peaks) / min(peaks) if len(peaks) > 1 else None,
        ),
        at_most("snapshot of 1,000 small tables, s", 60, _worst(many, "seconds", max)),
        at_most("its Spark jobs, a table", 0.1, _a_table(many, "jobs")),
        at_most(
            "span that touches them all, jobs and transactions a table",
            0.1,
            _a_table(spans, "jobs", "transactions"),
        ),
    ]


def _others(found: list[Result]) -> list[Verdict]:
    kafka = chosen(found, bench="snapshot", table="wide", sink="kafka", schemas=False)
    read, streamed = (chosen(found, bench=f"sqlserver-{what}") for what in ("snapshot", "stream"))
    return [
        at_least("snapshot of 12 columns into Kafka, rows/s", 120_000, _worst(kafka, "per_s", min)),
        at_least("MongoDB snapshot, of a plain scan", 0.5, _ratio(found, "mongodb-snapshot")),
        at_least("MongoDB stream, of a plain loop", 0.7, _ratio(found, "mongodb-stream")),
        at_least("SQL Server's stand-in, stream, rows/s", 50_000, _worst(streamed, "per_s", min)),
        at_least("SQL Server's stand-in, snapshot, rows/s", 100_000, _worst(read, "per_s", min)),
        at_least("the same, times a chunk a round trip", 100, _worst(read, "ratio", min)),
    ]


def _proof(lines: Sequence[Line], found: list[Result]) -> list[Verdict]:
    verified = chosen(found, bench="verify")
    peaks = [result.mid("verified_mib") for result in verified]
    base = {"bench": "certificate", "table": "wide", "sink": "files"}
    costs = paired(lines, "cpu_us_a_row", base | {"certificate": "on"}, base | {"certificate": "off"})
    return [
        at_least("verification of equal rows, of their snapshot", 0.5, _worst(verified, "of_snapshot", min)),
        at_most(
            "its peak memory, largest table by smallest",
            1.25,
            max(peaks) / min(peaks) if len(peaks) > 1 else None,
        ),
        at_most("CPU of a snapshot with its certificate, of one without", 1.1, costs.mid if costs else None),
    ]


def _ratio(found: list[Result], bench: str) -> float | None:
    return _worst(chosen(found, bench=bench), "ratio", min)


def _a_table(found: list[Result], *names: str) -> float | None:
    each = [sum(result.mid(name) for name in names) / result.what["tables"] for result in found]
    return max(each, default=None)


def _worst(found: list[Result], name: str, worst: Callable[[list[float]], float]) -> float | None:
    values = [result.mid(name) for result in found]
    return worst(values) if values else None


def at_least(goal: str, bound: float, figure: float | None) -> Verdict:
    """The figure has to be that much."""
    return Verdict(goal, bound, None, figure)


def at_most(goal: str, bound: float, figure: float | None) -> Verdict:
    """The figure may be that much."""
    return Verdict(goal, None, bound, figure)
