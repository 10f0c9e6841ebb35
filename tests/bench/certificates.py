"""What certificates cost a snapshot: the same table with and without, in turn.

The ratio of CPU seconds holds on a machine that others use, too; that of the rates only on a quiet one.
"""

from __future__ import annotations

import os
from itertools import count
from typing import TYPE_CHECKING, Any

from engine.config.settings import Certificate
from tests.bench.processes import cpu_seconds
from tests.bench.throughput import made

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.bench import Bench
    from tests.bench.tables import BenchTable

_numbers = count(1)


def measure_certificates(
    bench: Bench, table: BenchTable, rows: int, sink: str, runs: int = 1
) -> Iterator[dict[str, Any]]:
    """Rows and CPU microseconds a row, of all processes; a line for each run without and with."""
    made(bench, table, rows)
    before = bench.more
    for run in range(runs):
        # Each goes first as often as second.
        for certificate in sorted(Certificate, reverse=bool(run % 2)):
            bench.more = {**before, "tidemark.certificate": certificate.value}
            seconds, cpu_s = _spent(bench, table, sink)
            yield {
                "bench": "certificate",
                "table": table.name,
                "rows": rows,
                "sink": sink,
                "certificate": certificate.value,
                "per_s": round(rows / seconds),
                "cpu_us_a_row": round(cpu_s / rows * 1e6, 3),
            }
    bench.more = before


def _spent(bench: Bench, table: BenchTable, sink: str) -> tuple[float, float]:
    """Seconds on the clock, and CPU seconds of this process and all below it."""
    with (
        bench.slot(f"certificate_{next(_numbers)}") as slot,
        bench.job([table.name], sink=sink, slot=slot) as job,
    ):
        before_s = cpu_seconds(os.getpid())
        seconds = bench.snapshot(job, table.name)
        return seconds, cpu_seconds(os.getpid()) - before_s
