"""How many rows a second a snapshot reads, and how many events a second a backlog is drained at.

The limit, what PostgreSQL's own client reaches, is measured before and after each run, and the mean of
both is taken. A table or a log is made once, and every run reads it from its beginning.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from tests.bench.limits import PUBLICATION, copy_seconds, receive_seconds, row_bytes
from tests.bench.processes import cpu_seconds
from tests.bench.tables import CHANGES_A_TRANSACTION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.bench.bench import Bench
    from tests.bench.tables import BenchTable

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds on the clock, and CPU seconds of the database's processes."""

    clock_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Variant:
    """Where events go, and whether each carries its schema."""

    sink: str = "null"
    schemas: bool = False


def measure_snapshot(
    bench: Bench, table: BenchTable, rows: int, variants: Sequence[Variant], runs: int = 1
) -> Iterator[dict[str, Any]]:
    """Read a table of `rows` rows, from the signal's commit to the last READ in the sink.

    Each run takes the variants in turn, so that they compare.
    """
    made(bench, table, rows)
    limits = _Limits(lambda: _cost(bench, lambda: copy_seconds(bench.database, table.name)))
    for _ in range(runs):
        for variant in variants:
            spent = signalled(bench, table, rows, variant)
            limit = limits.around()
            rate = rows / spent.clock_s
            line = _line("snapshot", table, rows, variant, rate, rows / limit.clock_s)
            yield line | {
                "cpu_s_per_million": round(spent.cpu_s / rows * 1e6, 3),
                "limit_cpu_s_per_million": round(limit.cpu_s / rows * 1e6, 3),
                "cpu_ratio": round(spent.cpu_s / max(limit.cpu_s, 1e-9), 3),
                **_by_bytes(bench, table, rate),
            }


def measure_initial(
    bench: Bench, table: BenchTable, rows: int, sink: str, runs: int = 1
) -> Iterator[dict[str, Any]]:
    """Read a table of `rows` rows before its log; a signal's snapshots before and after, for comparison."""
    made(bench, table, rows)
    variant = Variant(sink)
    limits = _Limits(lambda: _cost(bench, lambda: copy_seconds(bench.database, table.name)))
    signals = _Limits(lambda: signalled(bench, table, rows, variant))
    for _ in range(runs):
        seconds = initial_seconds(bench, table, rows, sink)
        signalled_s, limit_s = signals.around().clock_s, limits.around().clock_s
        line = _line("initial", table, rows, variant, rows / seconds, rows / limit_s)
        line["incremental_per_s"] = round(rows / signalled_s)
        yield line | _by_bytes(bench, table, rows / seconds)


def initial_seconds(bench: Bench, table: BenchTable, rows: int, sink: str) -> float:
    """Seconds until an initial snapshot's last READ is in the sink, from the first turn on."""
    slot = f"initial_{next(_numbers)}"
    with bench.job([table.name], sink=sink, slot=slot, mode="initial") as job:
        seconds = bench.initial(job)
        read = sum(seen.events for _, seen in bench.seen)
    bench.drop_slot(slot)
    if read != rows:
        raise AssertionError(f"{read} events for {rows} rows")
    return seconds


def measure_stream(
    bench: Bench,
    table: BenchTable,
    rows: int,
    sink: str,
    *,
    at_once: int = CHANGES_A_TRANSACTION,
    runs: int = 1,
) -> Iterator[dict[str, Any]]:
    """Drain N inserts and N updates, committed beforehand, from the start of reading to the last event.

    `rows` is N, `at_once` the rows of a transaction (0: all in one).
    """
    made(bench, table, 0)
    with bench.slot(f"backlog_{next(_numbers)}") as backlog:
        with bench.database.connect() as connection:
            table.change(connection, rows, at_once)
            connection.execute("CHECKPOINT")
        end = bench.end_of_log()
        limits = _Limits(lambda: Cost(_received(bench, backlog, end), 0.0))
        for _ in range(runs):
            seconds = drained(bench, table, backlog, end, sink, 2 * rows)
            rate, limit_s = 2 * rows / seconds, limits.around().clock_s
            line = _line("stream", table, rows, Variant(sink), rate, 2 * rows / limit_s)
            yield line | {"at_once": at_once} | _by_bytes(bench, table, rate)


def drained(bench: Bench, table: BenchTable, backlog: str, end: str, sink: str, changes: int) -> float:
    """Seconds in which the job drains what a slot has up to `end`; the slot stays as it is."""
    with (
        bench.slot(f"stream_{next(_numbers)}", like=backlog) as slot,
        bench.job([table.name], sink=sink, slot=slot) as job,
    ):
        seconds = bench.drain(job, end)
        sent = sum(seen.events for _, seen in bench.seen)
    if not changes <= sent <= changes + 10:
        raise AssertionError(f"{sent} events for {changes} changes")
    return seconds


class _Limits:
    """A limit measured when made and after each run; what counts is the mean around the run."""

    def __init__(self, measure: Callable[[], Cost]) -> None:
        self._measure, self._last = measure, measure()

    def around(self) -> Cost:
        before, self._last = self._last, self._measure()
        both = (before, self._last)
        return Cost(sum(cost.clock_s for cost in both) / 2, sum(cost.cpu_s for cost in both) / 2)


def _cost(bench: Bench, seconds: Callable[[], float]) -> Cost:
    postmaster = bench.servers[0]
    before = cpu_seconds(postmaster)
    clock_s = seconds()
    return Cost(clock_s, cpu_seconds(postmaster) - before)


def made(bench: Bench, table: BenchTable, rows: int) -> None:
    """Make the table, published, with so many rows; one of that name is dropped."""
    with bench.database.connect() as connection:
        connection.execute(f"DROP TABLE IF EXISTS {table.name}".encode())
        table.create(connection, rows)
        connection.execute(f"ALTER PUBLICATION {PUBLICATION} ADD TABLE {table.name}".encode())
        connection.execute("CHECKPOINT")


def signalled(bench: Bench, table: BenchTable, rows: int, variant: Variant) -> Cost:
    """What it takes from a signal's commit to the last READ in the sink."""
    with (
        bench.slot(f"snapshot_{next(_numbers)}") as slot,
        bench.job([table.name], sink=variant.sink, slot=slot, schemas=variant.schemas) as job,
    ):
        spent = _cost(bench, lambda: bench.snapshot(job, table.name))
        read = sum(seen.events for _, seen in bench.seen)
    if not rows <= read <= rows + 10:
        raise AssertionError(f"{read} events for {rows} rows")
    return spent


def _received(bench: Bench, backlog: str, end: str) -> float:
    with bench.slot(f"limit_{next(_numbers)}", like=backlog) as slot:
        return receive_seconds(bench.database, slot, end)


def _line(
    name: str, table: BenchTable, rows: int, variant: Variant, rate: float, limit: float
) -> dict[str, Any]:
    return {
        "bench": name,
        "table": table.name,
        "rows": rows,
        "sink": variant.sink,
        "schemas": variant.schemas,
        "per_s": round(rate),
        "limit_per_s": round(limit),
        "ratio": round(rate / limit, 3),
    }


def _by_bytes(bench: Bench, table: BenchTable, rate: float) -> dict[str, Any]:
    """The bytes of a row's text, and megabytes a second, by which tables of any width compare."""
    width = row_bytes(bench.database, table.name)
    return {"row_bytes": round(width), "mb_per_s": round(rate * width / 1e6, 1)}
