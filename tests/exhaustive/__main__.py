"""Tries everything within bounds, and prints states, transitions and time: `python -m tests.exhaustive`.

The default bounds are those of `make prove`: 3 keys, 4 transactions of one change each, 2 windows in progress
of 2 slices each, 2 crashes. With `--every n` it tries each n-th log only.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tests.exhaustive.guards import document
from tests.exhaustive.logs import Log, logs
from tests.exhaustive.protocol import strike
from tests.exhaustive.search import Found
from tests.exhaustive.sweep import tried

_AT_ONCE = 100
COUNTEREXAMPLES = Path(__file__).parent / "COUNTEREXAMPLES.md"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.exhaustive", description=__doc__)
    parser.add_argument("--keys", type=int, default=3)
    parser.add_argument("--transactions", type=int, default=4, help="of one change each")
    parser.add_argument("--faults", type=int, default=2, help="crashes, and turns that a sink forgets")
    parser.add_argument("--every", type=int, default=1, help="search each n-th log")
    parser.add_argument("--everywhere", action="store_true", help="faults also where they leave no trace")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--document", action="store_true", help=f"write {COUNTEREXAMPLES.name}")
    return parser.parse_args()


def main() -> int:
    """Search; the exit code says whether an invariant was violated."""
    arguments = _arguments()
    logging.disable(logging.CRITICAL)
    if arguments.document:
        COUNTEREXAMPLES.write_text(document())
        return 0
    begun = time.monotonic()
    total, count = Found(), 0
    chosen = itertools.islice(logs(arguments.keys, arguments.transactions), 0, None, arguments.every)
    search = partial(tried, keys=arguments.keys, faults=arguments.faults, everywhere=arguments.everywhere)
    pieces = list(_pieces(chosen))
    with ProcessPoolExecutor(arguments.processes, mp_context=get_context("spawn")) as pool:
        for piece, found in zip(pieces, pool.map(search, pieces), strict=True):
            count += len(piece)
            total.states += found.states
            total.transitions += found.transitions
            if found.violation:
                print("\n".join([*found.steps, f"VIOLATION: {found.violation}"]))
                pool.shutdown(cancel_futures=True)
                return 1
    print(
        f"{count} logs of {arguments.transactions} transactions over {arguments.keys} keys:"
        f" {total.states} states, {total.transitions} transitions in {time.monotonic() - begun:.0f} s"
    )
    begun = time.monotonic()
    struck = strike(crashes=2, every=arguments.every)
    print(
        f"state protocol and fencing: {struck.histories} histories, {struck.calls} calls of ports"
        f" in {time.monotonic() - begun:.0f} s"
    )
    if struck.violation:
        print(f"{struck.history}\nVIOLATION: {struck.violation}")
    return bool(struck.violation)


def _pieces(some: Iterator[Log]) -> Iterator[list[Log]]:
    while piece := list(itertools.islice(some, _AT_ONCE)):
        yield piece


if __name__ == "__main__":
    sys.exit(main())
