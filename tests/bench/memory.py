"""How much memory a snapshot takes, of driver, JVM and workers together, whatever a table's rows.

One process reads ever larger tables, smallest first: what an earlier run has left in its heaps counts
against the later ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.bench.processes import peaking
from tests.bench.throughput import made

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.bench.bench import Bench
    from tests.bench.tables import BenchTable

_FILLED_AT_ONCE = 1_000_000


def measure_memory(
    bench: Bench, table: BenchTable, sizes: Sequence[int], sink: str
) -> Iterator[dict[str, Any]]:
    """The peak of a snapshot of each size."""
    made(bench, table, 0)
    last = 0
    for rows in sorted(sizes):
        fill(bench, table, last, rows)
        last = rows
        with (
            bench.slot(f"memory_{rows}") as slot,
            bench.job([table.name], sink=sink, slot=slot) as job,
            peaking(bench.servers) as peak,
        ):
            seconds = bench.snapshot(job, table.name)
        yield {
            "bench": "memory",
            "table": table.name,
            "rows": rows,
            "sink": sink,
            "peak_mib": round(peak.total),
            **{f"{part}_mib": round(mib) for part, mib in peak.parts.items()},
            "per_s": round(rows / seconds),
        }


def fill(bench: Bench, table: BenchTable, last: int, rows: int) -> None:
    """Add the rows after `last`, up to `rows`."""
    with bench.database.connect() as connection:
        for first in range(last, rows, _FILLED_AT_ONCE):
            connection.execute(table.insertion(first + 1, min(first + _FILLED_AT_ONCE, rows)).encode())
        connection.execute(f"VACUUM (ANALYZE, FREEZE) {table.name}".encode())
        connection.execute("CHECKPOINT")
