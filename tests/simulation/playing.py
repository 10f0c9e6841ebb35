"""Plays the histories of some seeds, in whatever process; a pool's processes find it by its module."""

from __future__ import annotations

import gc
from collections import Counter

from tests.simulation.script import draw
from tests.simulation.world import World


def play(first: int, count: int) -> tuple[Counter[str], list[tuple[int, str]]]:
    """Play the histories of some seeds; returns what happened, and the seeds that failed."""
    happened: Counter[str] = Counter()
    failed = []
    for seed in range(first, first + count):
        played = World(draw(seed)).play()
        happened += played.happened
        if played.violation:
            failed.append((seed, played.violation))
    gc.collect()
    return happened, failed
