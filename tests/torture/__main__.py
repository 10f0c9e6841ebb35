"""The torture test: `python -m tests.torture --seed S --minutes M`, and `--mutate`.

Plays histories of random tables, transactions, signals, crashes and restarts, one after the other. Some begin
with an initial snapshot. An oracle that knows nothing of the engine judges each. The seed decides everything
except how sessions interleave. `--source mongodb`: collections and documents instead.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

from tests.servers.mongodb import MissingProgram
from tests.torture.on_cluster import cluster_of_histories
from tests.torture.replicas import SINKS
from tests.torture.run import Run, mutate, replay


def main() -> int:
    """Run what the command line asks for. Returns 0 only without violations."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument(
        "--seed", default=str(int(time.time())), help="decides everything that can be decided"
    )
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--source", choices=["postgres", "mongodb", "sqlserver"], default="postgres")
    parser.add_argument(
        "--sink",
        choices=["files", "kafka", *SINKS],
        default="files",
        help="kafka: a real broker, killed too; others: tables, compared with their sources",
    )
    parser.add_argument(
        "--losses", action="store_true", help="logs, servers and checkpoints are lost, copies repaired"
    )
    parser.add_argument(
        "--initial",
        action=argparse.BooleanOptionalAction,
        help="whether the job begins with an initial snapshot; the seed decides for each history",
    )
    parser.add_argument(
        "--asks",
        choices=["blocking", "scope", "pause", "verify"],
        default="",
        help="what each history requests",
    )
    parser.add_argument("--version", type=int, choices=[15, 18], default=18)
    parser.add_argument(
        "--cluster", action="store_true", help="on a Spark cluster without a shared disk, executors killed"
    )
    parser.add_argument("--mutate", action="store_true", help="switch the guards off, one after the other")
    parser.add_argument("--only", nargs="*", default=[], help="these guards")
    parser.add_argument("--replay", type=Path, help="a script that was kept, to be played again and cut down")
    parser.add_argument("--keep", type=Path, help="where to leave what was found; a temporary directory")
    asked = parser.parse_args()
    if asked.source != "postgres" and asked.sink != "files":
        parser.error(f"with --source {asked.source} there is only the sink files")
    if asked.losses and asked.sink != "files":
        parser.error("--losses needs the sink files")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = asked.keep or Path(tempfile.mkdtemp(prefix="tidemark-torture-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return _run(asked, folder)
    except MissingProgram as missing:
        print(missing, file=sys.stderr)
        return 2


def _run(asked: argparse.Namespace, folder: Path) -> int:
    tables = asked.sink if asked.sink in SINKS else ""
    with (
        cluster_of_histories(asked.seed) if asked.cluster else nullcontext(),
        Run(
            folder,
            asked.version,
            kafka=asked.sink == "kafka",
            initial=asked.initial,
            source=asked.source,
            asks=asked.asks,
            tables=tables,
            losses=asked.losses,
        ) as run,
    ):
        if asked.mutate:
            return mutate(run, asked.only)
        if asked.replay:
            return replay(run, asked.replay, asked.minutes)
        return run.histories(asked.seed, asked.minutes)


if __name__ == "__main__":
    sys.exit(main())
