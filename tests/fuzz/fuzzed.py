"""What is fuzzed: a parser with good input to begin with, and its own errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.fuzz.mutations import mutated, mutated_json

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from engine.errors import TidemarkError


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """A parser: `seeds` are inputs that it takes, `errors` those of ours that it may answer with.

    Where the input is JSON, most of what is drawn stays so.
    """

    run: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    errors: tuple[type[TidemarkError], ...]
    json: bool = False

    def drawn(self, chance: random.Random) -> bytes:
        """A bad input."""
        mutation = mutated_json if self.json and chance.randrange(4) else mutated
        return mutation(self.seeds, chance)
