"""Plays the histories of some seeds, in whatever process; a pool's processes find it by its module."""

from __future__ import annotations

import gc
from collections import Counter

from tests.simulation.worlds import CORE, WORLDS


def play(first: int, count: int, world: str = CORE) -> tuple[Counter[str], list[tuple[int, str]]]:
    """Play the histories of some seeds; returns what happened, and the seeds that failed."""
    happened: Counter[str] = Counter()
    failed, kind = [], WORLDS[world]
    gc.freeze()  # no collection looks at the modules again: there are far more objects in them
    for seed in range(first, first + count):
        played = kind.world(kind.draw(seed)).play()
        happened += played.happened
        if played.violation:
            failed.append((seed, played.violation))
    gc.collect()
    gc.unfreeze()
    return happened, failed
