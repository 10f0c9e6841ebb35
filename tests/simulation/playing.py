"""Plays the histories of some seeds, in whatever process; a pool's processes find it by its module."""

from __future__ import annotations

import gc
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tests.simulation.worlds import CORE, WORLDS

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOGETHER: Final = 20
"""Histories between two collections of garbage: so many leave a few megabytes."""


def play(first: int, count: int, world: str = CORE) -> tuple[Counter[str], list[tuple[int, str]]]:
    """Play the histories of some seeds; returns what happened, and the seeds that failed."""
    happened: Counter[str] = Counter()
    failed, kind = [], WORLDS[world]
    seeds = range(first, first + count)
    for at in range(0, count, _TOGETHER):
        with _collected_at_the_end():
            for seed in seeds[at : at + _TOGETHER]:
                played = kind.world(kind.draw(seed)).play()
                happened += played.happened
                if played.violation:
                    failed.append((seed, played.violation))
    return happened, failed


@contextmanager
def _collected_at_the_end() -> Iterator[None]:
    """Collect no garbage meanwhile, and never look at the modules: most objects are theirs."""
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()
        gc.unfreeze()
