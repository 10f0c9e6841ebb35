"""Floats as the Java on PATH writes them, beside ours: the oracle of `engine.events.values.floats`.

    python -m tests.java.floats                     ten million bit patterns of each width
    python -m tests.java.floats --patterns 1000000 --seed 7

Java from 19 on writes other digits and is refused.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.events.values.floats.java_floats import float_texts
from tests.servers.java import compiled, java_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Floats = npt.NDArray[np.floating]
LAST_JAVA = 18
"""The last release that writes floats as Debezium 2.1.4's does."""
_SOURCE = Path(__file__).with_name("Floats.java")
_BATCH = 500_000


def java_texts(values: Floats) -> list[str]:
    """What Java writes for floats of 32 or 64 bits."""
    bits = 8 * values.dtype.itemsize
    patterns = values.view(f"u{values.dtype.itemsize}").astype(f">u{values.dtype.itemsize}").tobytes()
    command = ["java", "-XX:+UseSerialGC", "-cp", compiled(_SOURCE), "Floats", str(bits)]
    done = subprocess.run(command, input=patterns, capture_output=True, check=True)
    return done.stdout.decode().splitlines()


def our_texts(values: Floats) -> list[str]:
    """What we write for them."""
    texts: list[str] = float_texts(pa.array(values)).to_pylist()
    return texts


def patterns(kind: type[np.floating], count: int, seed: int) -> Floats:
    """Floats of any bits: half of them at random, others of few bits, near powers of two, or short decimals.

    Random bits alone are hardly ever a round number, and it is round numbers whose digits are odd in Java.
    """
    random, bits = np.random.default_rng(seed), 8 * np.dtype(kind).itemsize
    whole = np.dtype(f"u{bits // 8}").type
    drawn = random.integers(0, 2**bits, count, dtype=whole)
    stored = np.finfo(kind).nmant
    kept = random.integers(0, stored + 1, count).astype(whole)
    step = random.integers(-8, 9, count).astype(whole)
    few, near = drawn >> kept << kept, (drawn >> whole(stored) << whole(stored)) + step
    with np.errstate(all="ignore"):
        digits = random.integers(1, 10 ** random.integers(1, 18, count))
        round_numbers = (digits * 10.0 ** random.integers(-60, 40, count)).astype(kind).view(whole)
    chosen = random.integers(0, 6, count)
    mixed = np.choose(np.maximum(0, chosen - 2), [drawn, few, near, round_numbers])
    return mixed.view(kind)


def differences(values: Floats) -> Iterator[tuple[str, str]]:
    """Java's text and ours where they differ."""
    for java, ours in zip(java_texts(values), our_texts(values), strict=True):
        if java != ours:
            yield java, ours


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.java.floats", description=__doc__)
    parser.add_argument("--patterns", type=int, default=10_000_000, help="of each width (10,000,000)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    if java_version() > LAST_JAVA:
        print(
            f"Java {java_version()} writes other digits than Java up to {LAST_JAVA}; put an older one on PATH"
        )
        return 2
    found = 0
    for kind in (np.float64, np.float32):
        for begun in range(0, options.patterns, _BATCH):
            count = min(_BATCH, options.patterns - begun)
            for java, ours in differences(patterns(kind, count, options.seed + begun)):
                found += 1
                print(f"{kind.__name__}: Java writes {java}, we write {ours}")
        print(f"{options.patterns:,} patterns of {kind.__name__} compared, {found} differences", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
