"""Plays simulated histories: `python -m tests.simulation --seed 1 --count 1000`.

A failing history is cut down, told as a story and saved; `--replay FILE` plays it again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.simulation.figures import missed, table
from tests.simulation.playing import play
from tests.simulation.script import History, to_json
from tests.simulation.shrink import shrunk
from tests.simulation.story import told
from tests.simulation.worlds import CORE, WORLDS, played, saved

_AT_ONCE = 200
_SAVED = Path("build/simulation")


def violation_of(history: History) -> str:
    """What a history violates, empty for nothing."""
    return played(history).violation


def tell(history: History) -> str:
    """Print a history's story; returns its violation."""
    found = played(history, story=True)
    print("\n".join(told(found.story)))
    return found.violation


def report(seed: int, violation: str, world: str) -> None:
    """Cut a failing history down, tell it, and say how to play it again."""
    history = WORLDS[world].draw(seed)
    print(f"\nseed {seed}: {violation}\ncutting it down …", flush=True)
    small = shrunk(history, lambda candidate: played(candidate).invariant)
    _SAVED.mkdir(parents=True, exist_ok=True)
    path = _SAVED / f"{world}-{seed}.json"
    path.write_text(to_json(small))
    print(f"{len(history.steps)} steps became {len(small.steps)}; {small.setup}\n")
    tell(small)
    print(f"\nagain: .venv/bin/python -m tests.simulation --replay {path}")
    print(f"whole: .venv/bin/python -m tests.simulation --world {world} --seed {seed} --count 1 --story")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=1000, help="how many histories")
    parser.add_argument("--world", choices=sorted(WORLDS), default=CORE, help="core, or a source's depth")
    parser.add_argument("--minutes", type=float, help="as many histories as fit into this time")
    parser.add_argument("--processes", type=int, default=1, help="how many processes play")
    parser.add_argument("--story", action="store_true", help="tell each history")
    parser.add_argument("--replay", type=Path, help="play a saved history, and tell it")
    return parser.parse_args()


def main() -> int:
    """Play; the exit code says whether all was well."""
    arguments = _arguments()
    if arguments.replay:
        return bool(tell(saved(arguments.replay.read_bytes())))
    if arguments.story:
        seeds = range(arguments.seed, arguments.seed + arguments.count)
        return max(bool(tell(WORLDS[arguments.world].draw(seed))) for seed in seeds)
    begun, cpu = time.monotonic(), time.process_time()
    happened: Counter[str] = Counter()
    failed: list[tuple[int, str]] = []
    histories = 0
    until = None if arguments.minutes is None else begun + 60 * arguments.minutes
    with ProcessPoolExecutor(arguments.processes, mp_context=get_context("spawn")) as pool:
        run = map if arguments.processes == 1 else pool.map
        while not failed and (time.monotonic() < until if until else histories < arguments.count):
            size = _AT_ONCE if until else min(_AT_ONCE, arguments.count - histories)
            pieces = [
                (arguments.seed + histories + size * at, size, arguments.world)
                for at in range(arguments.processes)
            ]
            if not until:
                pieces = [
                    (first, least, world)
                    for first, size, world in pieces
                    if (least := min(size, arguments.seed + arguments.count - first)) > 0
                ]
            for found, violations in run(play, *zip(*pieces, strict=True)):
                happened += found
                failed += violations
            histories += sum(size for _first, size, _world in pieces)
    took, used = time.monotonic() - begun, time.process_time() - cpu
    print("\n".join(table(histories, happened)))
    print(f"{histories} histories in {took:.1f} s: {histories / took:.0f} a second", end="")
    print(f", {histories / used:.0f} a second of processor" if arguments.processes == 1 else "")
    for seed, violation in failed[:1]:
        report(seed, violation, arguments.world)
    short = list(missed(histories, happened, WORLDS[arguments.world].floors))
    print("\n".join(f"too rare: {line}" for line in short))
    return bool(failed or short)


if __name__ == "__main__":
    sys.exit(main())
