"""How many rows a second a snapshot reads, and how many events a second a backlog is drained at.

The limit, what PostgreSQL's own client reaches, is measured before and after, and its mean is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.bench.limits import PUBLICATION, copy_seconds, receive_seconds, row_bytes

if TYPE_CHECKING:
    from tests.bench.bench import Bench
    from tests.bench.tables import BenchTable


def measure_snapshot(bench: Bench, table: BenchTable, rows: int, sink: str) -> dict[str, Any]:
    """Read a table of `rows` rows, from the signal's commit to the last READ in the sink."""
    with bench.database.connect() as connection:
        table.create(connection, rows)
        connection.execute(f"ALTER PUBLICATION {PUBLICATION} ADD TABLE {table.name}")
        connection.execute("CHECKPOINT")
    bench.create_slot("snapshot")
    limit_s = copy_seconds(bench.database, table.name)
    with bench.job([table.name], sink=sink, slot="snapshot") as job:
        seconds = bench.snapshot(job, table.name)
        read = sum(seen.events for _, seen in bench.seen)
    limit_s = (limit_s + copy_seconds(bench.database, table.name)) / 2
    if not rows <= read <= rows + 10:
        raise AssertionError(f"{read} events for {rows} rows")
    line = _line("snapshot", table, rows, sink, rows / seconds, rows / limit_s)
    return line | _by_bytes(bench, table, rows / seconds)


def measure_initial(bench: Bench, table: BenchTable, rows: int, sink: str) -> dict[str, Any]:
    """Read a table of `rows` rows before its log; a signal's snapshots before and after, for comparison."""
    with bench.database.connect() as connection:
        table.create(connection, rows)
        connection.execute(f"ALTER PUBLICATION {PUBLICATION} ADD TABLE {table.name}")
        connection.execute("CHECKPOINT")
    limit_s = copy_seconds(bench.database, table.name)
    signalled_s = _signalled(bench, table, sink, "before")
    with bench.job([table.name], sink=sink, slot="initial", mode="initial") as job:
        seconds = bench.initial(job)
        read = sum(seen.events for _, seen in bench.seen)
    signalled_s = (signalled_s + _signalled(bench, table, sink, "after")) / 2
    limit_s = (limit_s + copy_seconds(bench.database, table.name)) / 2
    if read != rows:
        raise AssertionError(f"{read} events for {rows} rows")
    line = _line("initial", table, rows, sink, rows / seconds, rows / limit_s)
    line["incremental_per_s"] = round(rows / signalled_s)
    return line | _by_bytes(bench, table, rows / seconds)


def _signalled(bench: Bench, table: BenchTable, sink: str, slot: str) -> float:
    bench.create_slot(slot)
    with bench.job([table.name], sink=sink, slot=slot) as job:
        return bench.snapshot(job, table.name)


def measure_stream(bench: Bench, table: BenchTable, rows: int, sink: str) -> dict[str, Any]:
    """Drain `rows` changes, committed beforehand, from the start of reading to the last event in the sink."""
    with bench.database.connect() as connection:
        table.create(connection, 0)
        connection.execute(f"ALTER PUBLICATION {PUBLICATION} ADD TABLE {table.name}")
        for slot in ("stream", "before", "after"):
            bench.create_slot(slot)
        table.change(connection, rows)
        connection.execute("CHECKPOINT")
    end = bench.end_of_log()
    limit_s = receive_seconds(bench.database, "before", end)
    with bench.job([table.name], sink=sink, slot="stream") as job:
        seconds = bench.drain(job, end)
        sent = sum(seen.events for _, seen in bench.seen)
    limit_s = (limit_s + receive_seconds(bench.database, "after", end)) / 2
    if not rows <= sent <= rows + 10:
        raise AssertionError(f"{sent} events for {rows} changes")
    line = _line("stream", table, rows, sink, rows / seconds, rows / limit_s)
    return line | _by_bytes(bench, table, rows / seconds)


def _line(name: str, table: BenchTable, rows: int, sink: str, rate: float, limit: float) -> dict[str, Any]:
    return {
        "bench": name,
        "table": table.name,
        "rows": rows,
        "sink": sink,
        "per_s": round(rate),
        "limit_per_s": round(limit),
        "ratio": round(rate / limit, 3),
    }


def _by_bytes(bench: Bench, table: BenchTable, rate: float) -> dict[str, Any]:
    """The bytes of a row's text, and megabytes a second, by which tables of any width compare."""
    width = row_bytes(bench.database, table.name)
    return {"row_bytes": round(width), "mb_per_s": round(rate * width / 1e6, 1)}
