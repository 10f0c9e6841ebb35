"""The model of scale beside what was measured: constants measured apart, then the points that they predict.

Constants come from runs with other sizes than the points: CPU seconds a row from a snapshot on one executor,
what a window takes once from the same rows in small windows, and what a turn takes from its slices. The
machine may be shared, so the model is given the cores that others left while a point was measured.
"""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.bench import SERVER_SETTINGS, benches
from tests.bench.cluster import cpu_now, sessions
from tests.bench.scale_model import Costs, Place, predict
from tests.bench.tables import TABLES
from tests.bench.throughput import Variant, made, signalled
from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.bench.bench import Bench
    from tests.bench.cluster import Cpu
    from tests.bench.tables import BenchTable

_MANY = (1, 2, 4, 8, 16, 32, 64)
_SMALL_WINDOW_CHUNKS = 40
_CHUNK_ROWS = 1024
_WINDOW_BYTES = 256 << 20
_DATABASE_CORES, _DRIVER_CORES, _SINK_CORES = 32.0, 4.0, 12.0


class _Run:
    """A snapshot, and what it took."""

    def __init__(self, bench: Bench, table: BenchTable, rows: int, executors: Sequence[int]) -> None:
        before = cpu_now(bench, executors)
        self.clock_s = signalled(bench, table, rows, Variant("null")).clock_s
        self.spent: Cpu = cpu_now(bench, executors).since(before)
        times = [at for at, seen in bench.seen if seen.events]
        self.turns = len(times)
        self.rows_a_turn = rows / max(1, len(times))
        gaps = sorted(later - earlier for earlier, later in pairwise(times))
        # The fastest turns in a row: the others waited for rows.
        self.turn_s = gaps[len(gaps) // 4] if gaps else self.clock_s
        self.rows = rows


def _costs(bench: Bench, table: BenchTable, rows: int, executors: Sequence[int]) -> Costs:
    """The constants, from runs of half the rows of a point, once the JVMs have compiled what they run."""
    _warm(bench, table, rows)
    large = _Run(bench, table, rows, executors)
    bench.more = {"tidemark.window.max.chunks": str(_SMALL_WINDOW_CHUNKS)}
    small = _Run(bench, table, rows, executors)
    bench.more = {}
    windows = rows / (_SMALL_WINDOW_CHUNKS * _CHUNK_ROWS)
    spent = large.spent
    row_bytes = bench.database.value(f"SELECT avg(octet_length(t::text)) FROM {table.name} t") or 300
    return Costs(
        database=spent.database / rows,
        jvm=spent.jvm / rows,
        worker=spent.worker / rows,
        driver=spent.driver / rows,
        sink=0.0,
        window_s=max(0.0, (small.clock_s - large.clock_s) / windows),
        turn_s=large.turn_s,
        slice_rows=large.rows_a_turn,
        window_rows=_WINDOW_BYTES / (float(row_bytes) * 1.5),
    )


def _warm(bench: Bench, table: BenchTable, rows: int) -> None:
    signalled(bench, table, rows, Variant("null"))


def measure_scale(table: BenchTable, rows: int, counts: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Constants, points beside their predictions, and the predictions for machines that are not here."""
    costs: Costs | None = None
    with PostgresServer(settings=SERVER_SETTINGS) as server:
        for executors in counts:
            with (
                tempfile.TemporaryDirectory(prefix="tidemark-bench-") as place,
                sessions(executors) as (spark, cluster),
                benches(server, spark, Path(place)) as bench,
            ):
                jvms = cluster.executors()
                if costs is None:
                    made(bench, table, rows // 2)
                    costs = _costs(bench, table, rows // 2, jvms)
                    yield {"bench": "scale", "what": "constants", **_shown(costs)}
                made(bench, table, rows)
                _warm(bench, table, rows)
                point = _Run(bench, table, rows, jvms)
                # One machine: all parts share what others left of it.
                expected = predict(costs, Place(executors, 0, 0, shared=point.spent.cores_left))
                yield {
                    "bench": "scale",
                    "what": "point",
                    "executors": executors,
                    "per_s": round(rows / point.clock_s),
                    "predicted_per_s": round(expected.rows_per_s),
                    "miss": round(expected.rows_per_s * point.clock_s / rows - 1, 2),
                    "bound": expected.bound,
                    "cores_left": round(point.spent.cores_left, 2),
                    "cpu_s_per_million": round(
                        sum(getattr(point.spent, part) for part in ("database", "jvm", "worker", "driver"))
                        / rows
                        * 1e6,
                        2,
                    ),
                }
    assert costs is not None
    for executors in _MANY:
        expected = predict(costs, Place(executors, _DATABASE_CORES, _DRIVER_CORES))
        yield {
            "bench": "scale",
            "what": "prediction",
            "executors": executors,
            "per_s": round(expected.rows_per_s),
            "bound": expected.bound,
        }


def _shown(costs: Costs) -> dict[str, float]:
    """The constants: CPU seconds per million rows, milliseconds, rows."""
    by_row = {
        f"{name}_s_per_million": round(getattr(costs, name) * 1e6, 3)
        for name in ("database", "jvm", "worker", "driver")
    }
    return by_row | {
        "window_ms": round(costs.window_s * 1000, 1),
        "turn_ms": round(costs.turn_s * 1000, 1),
        "slice_rows": round(costs.slice_rows),
        "window_rows": round(costs.window_rows),
    }


def scale_lines(options: Any) -> Iterator[dict[str, Any]]:
    """What the command's options ask for."""
    rows = (options.rows or [1_000_000])[0]
    yield from measure_scale(TABLES[options.table], rows, options.executors)
