"""Feed every parser a million bad inputs, or as many as said.

    python -m tests.fuzz [--inputs 1000000] [--seed 1] [--only bson] [--atheris]

Inputs are made of good ones (`mutations`); with `--atheris` libFuzzer makes them, led by the lines that they
reach. Ends with 1 at the first input that gives neither a value nor an error of ours, that takes too long, or
after which more memory is held than MOST_BYTES, and shows it.
"""

from __future__ import annotations

import argparse
import logging
import random
import resource
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fuzz.targets import FUZZED, LONGEST_S, accepted

if TYPE_CHECKING:
    from tests.fuzz.fuzzed import Fuzzed

TOLD = 100_000
"""After how many inputs there is a line on how far it has come."""
MOST_BYTES = 2 << 30
"""Of address space, over what is there before the first input: reserving a damaged length fails at once."""


def _drawn(name: str, fuzzed: Fuzzed, inputs: int, seed: int) -> bool:
    """Whether all inputs of a seed had an answer."""
    chance, taken, slowest_s, began = random.Random(seed), 0, 0.0, time.perf_counter()
    for number in range(inputs):
        if number and not number % TOLD:
            print(f"{name}: {number} inputs so far", flush=True)
        data, started = fuzzed.drawn(chance), time.thread_time()
        try:
            taken += accepted(fuzzed, data)
        except Exception as error:  # noqa: BLE001  whatever it is, it is no answer
            print(f"{name}: input {number} of seed {seed}: {type(error).__name__}: {error}\n  {data!r}")
            traceback.print_exception(error)
            return False
        took_s = time.thread_time() - started
        slowest_s = max(slowest_s, took_s)
        if took_s > LONGEST_S:
            print(f"{name}: input {number} of seed {seed} took {took_s:.1f} s\n  {data!r}")
            return False
    rate = inputs / (time.perf_counter() - began)
    print(
        f"{name:20} {inputs} inputs, {taken} taken, {rate:.0f}/s, slowest {slowest_s * 1000:.0f} ms",
        flush=True,
    )
    return True


def _led(name: str, inputs: int, seed: int) -> bool:
    """The same by libFuzzer, in a process of its own, which it ends."""
    Path("build").mkdir(exist_ok=True)
    limits = [f"-timeout={LONGEST_S:.0f}", f"-rss_limit_mb={MOST_BYTES >> 20}", f"-seed={seed}"]
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.led",
        name,
        f"-runs={inputs}",
        "-max_len=4096",
        *limits,
        "-artifact_prefix=build/",
    ]
    return subprocess.run(command, check=False).returncode == 0


def main() -> int:
    """Run what is asked for; the status to exit with."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--inputs", type=int, default=1_000_000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only", choices=list(FUZZED))
    arguments.add_argument("--atheris", action="store_true")
    asked = arguments.parse_args()
    names = [asked.only] if asked.only else list(FUZZED)
    if asked.atheris:
        return min(1, sum(not _led(name, asked.inputs, asked.seed) for name in names))
    logging.disable()
    _bound_memory()
    return min(1, sum(not _drawn(name, FUZZED[name], asked.inputs, asked.seed) for name in names))


def _bound_memory() -> None:
    with open("/proc/self/statm") as file:  # noqa: PTH123  no file of ours
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MOST_BYTES,) * 2)


if __name__ == "__main__":
    sys.exit(main())
