"""The job's real steps, struck everywhere: crashes between any two calls of its ports, and a second job.

The search takes a turn for one step, which happens, is lost, or reaches a sink that forgets it. Here the real
loop, state store, lease and desk run over the simulated world, which judges every step (`tests/simulation`):
a turn is sent at most once more per crash, a state is promoted after its turn, answers are given, and a job
that slept through a takeover writes nothing where the sink fences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.simulation.script import History, Setup
from tests.simulation.world import World

_TTL_S = 9
"""Longer than a lease lives."""
_LOOK_CALLS = 5
"""The calls in which a job looks at the lease of another one for the first time."""
_BASE: tuple[tuple[Any, ...], ...] = (
    ("execute", 1),
    ("tx", ("t", "put", 1), 1),
    ("tx", ("t", "touch", 0), 0),
)
"""What a history begins with: a snapshot is asked for, a row changes, and another one, not visible yet."""


class _StruckWorld(World):
    """A world whose end is played like its beginning, since it is struck, too."""

    def _hurry(self) -> None:
        """Do nothing."""


@dataclass
class Struck:
    """What striking came to: histories, calls of ports, and the first violation with its history."""

    histories: int = 0
    calls: int = 0
    violation: str = ""
    history: History | None = None

    def play(self, history: History) -> World:
        """Play one history."""
        world = _StruckWorld(history)
        violation = world.play().violation
        self.histories += 1
        self.calls += world.calls
        if violation and not self.violation:
            self.violation, self.history = violation, history
        return world


def strike(*, crashes: int, every: int) -> Struck:
    """Crash before each call, then before each `every`-th call that follows; the same with a second job."""
    struck = Struck()
    for knows in (True, False):
        setup = Setup(rows=3, knows=knows, chunk_rows=1, window_rows=2)
        calls = struck.play(History(setup, _BASE)).calls
        for steps in (*_crashes(calls, crashes, every), *_takeovers(calls, every)):
            struck.play(History(setup, (*_BASE, *steps)))
            if struck.violation:
                return struck
    return struck


def _crashes(calls: int, crashes: int, every: int) -> Iterator[tuple[tuple[Any, ...], ...]]:
    for first in range(1, calls):
        yield ("go", first), ("crash",)
        for second in range(1, calls, every) if crashes > 1 else ():
            yield ("go", first), ("crash",), ("go", second), ("crash",)


def _takeovers(calls: int, every: int) -> Iterator[tuple[tuple[Any, ...], ...]]:
    """The job sleeps before each call, another one takes over, and the sleeper wakes before its calls."""
    for asleep in range(1, calls):
        for awake in range(1, calls, every):
            # The second job looks at the lease, and then again when it has run out.
            takeover = ("rival",), ("go", _LOOK_CALLS), ("freeze", _TTL_S), ("tx", ("t", "put", 2), 1)
            yield ("go", asleep), *takeover, ("go", awake), ("switch",)
