"""What queued signals cost the stream: CPU time of a turn with none and with 1,000 queued, interleaved.

`python -m tests.bench.queued` runs a job over a database in memory: only the engine's own work counts.
The queue is paused, so no window is read. A small span of a real job costs about 5 ms of the driver's time.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

import orjson

from tests.job_bench import Bench, T
from tests.memory_source import Change

_QUEUED = 1_000
_TURNS = 100
_ROUNDS = 5
_REAL_TURN_MS = 5.0


def prepared(directory: Path, queued: int) -> Bench:
    """A streaming job with so many different signals in its paused queue."""
    bench = Bench(directory)
    bench.job.settle()
    bench.job.start()
    bench.database.signal("pause", "pause-snapshot", "{}")
    for number in range(queued):
        data = {"data-collections": ["public.t"], "additional-condition": f"k > {number}"}
        bench.execute(orjson.dumps(data).decode())
    bench.turns(queued // 100 + 5)
    assert len(bench.job.state.snapshot.tables) == queued
    return bench


def turn_ms(bench: Bench) -> float:
    """CPU milliseconds of a turn that streams one change; what the database in memory does is left out."""
    spent_s = 0.0
    for number in range(_TURNS):
        bench.database.commit(Change(T, 1, f"v{number}"))
        bench.now_s += 0.1
        begun_s = time.process_time()
        bench.turns(1)
        spent_s += time.process_time() - begun_s
    return 1000 * spent_s / _TURNS


def main() -> None:
    """Print the medians, and what the queue adds to a real turn."""
    with tempfile.TemporaryDirectory() as directory:
        benches = [prepared(Path(directory) / str(queued), queued) for queued in (0, _QUEUED)]
        found = [[turn_ms(bench) for bench in benches] for _ in range(_ROUNDS)]
    without, with_queue = (median(column) for column in zip(*found, strict=True))
    added = with_queue - without
    share = 100 * added / _REAL_TURN_MS
    print(f"{without:.2f} ms a turn, {with_queue:.2f} with {_QUEUED} queued: {share:.1f} % of a real turn")


if __name__ == "__main__":
    main()
