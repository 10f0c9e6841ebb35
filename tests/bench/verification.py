"""What a verification takes, beside the snapshot that has sent the rows: of equal rows, and of extra ones.

The database and the job share the machine, and a files sink is both written to and compared. The ratio of the
rates counts, since both are measured in one run. Memory is that of the job, whatever a table's rows; `own` is
without pages of files, which the system takes back when memory is short.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from signals.answers import Outcome
from tests.bench.memory import fill
from tests.bench.processes import Peak, peaking
from tests.bench.throughput import made

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.job.loop import Job
    from tests.bench.bench import Bench
    from tests.bench.tables import BenchTable

_TIMEOUT_S = 3600.0


def measure_verification(bench: Bench, table: BenchTable, sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    """A line for each size: a snapshot, a verification that accepts, and one after all rows are gone."""
    for rows in sorted(sizes):
        made(bench, table, 0)
        fill(bench, table, 0, rows)
        with (
            bench.slot(f"verify_{rows}") as slot,
            bench.job([table.name], sink="files", slot=slot) as job,
        ):
            with peaking(bench.servers) as copying:
                snapshot_s = bench.snapshot(job, table.name)
            with peaking(bench.servers) as comparing:
                equal_s = _verified(bench, job, table.name, {"verdict": "accept", "equal": rows})
            _empty(bench, table.name)
            with peaking(bench.servers) as without:
                extra_s = _verified(bench, job, table.name, {"verdict": "reject", "extra": rows})
        yield {
            "bench": "verify",
            "table": table.name,
            "rows": rows,
            "snapshot_per_s": round(rows / snapshot_s),
            "verified_per_s": round(rows / equal_s),
            "of_snapshot": round(snapshot_s / equal_s, 2),
            "extra_per_s": round(rows / extra_s),
            "snapshot_mib": round(copying.total),
            **_peak("verified", comparing),
            **_peak("extra", without),
        }


def _verified(bench: Bench, job: Job, table: str, expected: dict[str, Any]) -> float:
    """Seconds from a signal's commit to the verdict, which must be the expected one."""
    bench.answers.clear()
    bench.signal(f"verify {expected['verdict']}", table, "verify")
    started = time.perf_counter()
    while not [answer for answer in bench.answers if answer.outcome is not Outcome.ACCEPTED]:
        job.turn()
        if time.perf_counter() - started > _TIMEOUT_S:
            raise AssertionError(f"no verdict within {_TIMEOUT_S} s")
    facts = bench.answers[-1].facts
    if {name: facts.get(name) for name in expected} != expected:
        raise AssertionError(f"the verdict should be {expected}: {bench.answers[-1].text}")
    return time.perf_counter() - started


def _empty(bench: Bench, table: str) -> None:
    """Remove all rows without an event of it: skipped.operations leaves truncates out."""
    with bench.database.connect() as connection:
        connection.execute(f"TRUNCATE {table}".encode())


def _peak(name: str, peak: Peak) -> dict[str, int]:
    return {
        f"{name}_mib": round(peak.total),
        f"{name}_own_mib": round(peak.own),
        **{f"{name}_{part}_mib": round(mib) for part, mib in peak.parts.items()},
    }
