"""Which collections were set aside, turn by turn, according to the job's own notes. Pure.

While a collection is set aside, its changes need no events. The judge asks here whether it was.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn: its number, its end in the log, the collections then set aside, and all incomplete ones.

    `letters` counts the entries kept or dropped for collections set aside. A signal in the same turn may
    complete a collection again at once; then only this count shows that it was set aside.
    """

    number: int
    end: int
    aside: frozenset[str] = frozenset()
    incomplete: frozenset[str] = frozenset()
    letters: Mapping[str, int] = field(default_factory=dict)

    def bad(self, before: Turn) -> frozenset[str]:
        """The collections that had changes set aside since the turn before."""
        more = {name for name, count in self.letters.items() if count > before.letters.get(name, 0)}
        return self.aside | more


@dataclass(frozen=True, slots=True)
class Aside:
    """The turns of a history, in order."""

    turns: tuple[Turn, ...] = ()

    @classmethod
    def of(cls, notes: Iterable[Mapping[str, Any]], end: Callable[[Sequence[Any]], int]) -> Aside:
        """Built from the notes of turns. `end` gives the place of a position in the log."""
        turns = {
            note["turn"]: Turn(
                note["turn"],
                end(note["position"]),
                frozenset(note["aside"]),
                frozenset(note["incomplete"]),
                note["letters"],
            )
            for note in notes
            if note["position"]
        }
        return cls(tuple(turns[number] for number in sorted(turns)))

    @property
    def ever(self) -> frozenset[str]:
        """The collections that were ever set aside."""
        return frozenset().union(*(turn.bad(before) for before, turn in self._pairs()))

    @property
    def begun(self) -> int:
        """How often a collection was set aside."""
        return sum(len(turn.bad(before) - before.aside) for before, turn in self._pairs())

    @property
    def ended(self) -> int:
        """How often a collection that had been set aside became complete again."""
        bad, count = frozenset[str](), 0
        for before, turn in self._pairs():
            bad |= turn.bad(before)
            count += len(bad - turn.incomplete)
            bad &= turn.incomplete
        return count

    def turn_of(self, name: str, place: int) -> int | None:
        """The turn that may have carried a change without an event; None if there must be an event.

        Several turns may carry the changes of one place. A turn that was sent by a job that could no longer
        note it may have ended a collection's time aside.
        """
        for at in range(bisect_left(self.turns, place, key=lambda turn: turn.end), len(self.turns)):
            turn = self.turns[at]
            before = self.turns[at - 1] if at else Turn(turn.number - 1, 0)
            told_of = turn.number == before.number + 1
            bad = turn.bad(before) | before.aside
            if name in (bad if told_of else bad | turn.incomplete | before.incomplete):
                return turn.number
            if turn.end > place:
                break
        return None

    def _pairs(self) -> Iterable[tuple[Turn, Turn]]:
        before = Turn(0, 0)
        for turn in self.turns:
            yield before, turn
            before = turn
