"""The generator of all choices: SplitMix64, written out, so that a seed means the same on every machine.

Integers only: no float decides anything, and nothing depends on Python's own `random` or on hashes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

Item = TypeVar("Item")
_MASK = (1 << 64) - 1


class Generator:
    """A sequence of choices that follows from its seed."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK
        # Neighbouring seeds differ in few bits: mix them once before the first choice.
        self._state = self._next()

    def _next(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def below(self, bound: int) -> int:
        """An integer from 0 to `bound` - 1."""
        return (self._next() * bound) >> 64

    def between(self, least: int, most: int) -> int:
        """An integer from `least` to `most`."""
        return least + self.below(most - least + 1)

    def chance(self, percent: int) -> bool:
        """True in this many of a hundred cases."""
        return self.below(100) < percent

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[self.below(len(items))]
