"""Finds faults again that were once found: draws histories without a mend, cuts them down, saves them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from tests.simulation.script import to_json
from tests.simulation.shrink import shrunk
from tests.simulation.worlds import played, saved

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulation.script import History

BROKEN: Final = "the job broke"
"""How a violation begins that is an error of Python."""


@dataclass(frozen=True, slots=True)
class Mends:
    """The mends of a world by name, each with what takes it out; `saved_in` has a history for each."""

    mends: Mapping[str, Callable[[], Any]]
    saved_in: Path
    draw: Callable[[int], History]

    @contextmanager
    def without(self, name: str) -> Iterator[None]:
        """Take a mend out."""
        with self.mends[name]():
            yield

    def violated(self, name: str, history: History) -> str:
        """What a history violates without a mend."""
        with self.without(name):
            return played(history).violation

    def _invariant(self, name: str, history: History) -> str:
        with self.without(name):
            return played(history).invariant

    def search(self, name: str, first: int, count: int) -> History | None:
        """A history that finds a fault again, cut down; None if none of these seeds does."""
        for seed in range(first, first + count):
            history = self.draw(seed)
            if self.violated(name, history) and not played(history).violation:
                return shrunk(history, lambda candidate: self._invariant(name, candidate), most=300)
        return None

    def save(self, name: str, history: History) -> str:
        """Save a history; returns what it violates."""
        violation = self.violated(name, history)
        self.saved_in.mkdir(parents=True, exist_ok=True)
        about = {"without": name, "violates": violation[:200]}
        (self.saved_in / f"{name}.json").write_text(to_json(history, about))
        return violation

    def replays(self, name: str) -> bool:
        """Whether a saved history, if there is one, finds its fault and nothing else."""
        path = self.saved_in / f"{name}.json"
        if not path.exists():
            return True
        document = path.read_bytes()
        history = saved(document)
        violation = self.violated(name, history)
        if violation.startswith(BROKEN) and not orjson.loads(document)["violates"].startswith(BROKEN):
            return False  # what takes the mend out does not fit the code any more
        return bool(violation) and not played(history).violation

    def main(self, program: str, about: str) -> int:
        """Search or replay; the exit code says whether every fault was found again."""
        parser = argparse.ArgumentParser(prog=f"python -m {program}", description=about)
        parser.add_argument("--only", action="append", help="the faults to look for")
        parser.add_argument("--saved", action="store_true", help="play the saved histories")
        parser.add_argument("--seed", type=int, default=1)
        parser.add_argument("--count", type=int, default=400)
        arguments = parser.parse_args()
        missed = 0
        for name in arguments.only or self.mends:
            if arguments.saved:
                missed += not self.replays(name)
                continue
            found = self.search(name, arguments.seed, arguments.count)
            missed += found is None
            said = (
                "not found" if found is None else f"{len(found.steps)} steps: {self.save(name, found)[:150]}"
            )
            print(f"{name}: {said}", flush=True)
        return missed
