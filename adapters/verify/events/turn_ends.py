"""Where a topic's partitions ended after each turn, so that a record tells the turn that has sent it. Pure.

    partition   records … 41 │ 42 43 │ 44 45 46 │ …
    turn        up to 7      │ 8     │ 9        │

A partition's end is that of the records that a consumer may see. Turns that have sent nothing are not kept.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import orjson

from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine.events.values.text import Ints

_LINE: Final = msgspec.json.Decoder(tuple[int, list[tuple[int, int]]])


@dataclass(slots=True)
class TurnEnds:
    """The ends of a topic's partitions, by turn. `newest` is the last turn that was noted."""

    newest: int = -1
    _turns: list[int] = field(default_factory=list)
    _ends: list[Mapping[int, int]] = field(default_factory=list)

    def note(self, turn: int, ends: Mapping[int, int]) -> None:
        """Note the ends after a turn, by partition. Turns are noted in order.

        Raises SourceError if a partition has lost records at its end: the topic was recreated.
        """
        before = self._ends[-1] if self._ends else {}
        if any(ends.get(partition, -1) < end for partition, end in before.items()):
            raise SourceError("the topic was recreated while it was compared", hint="ask again")
        self.newest = turn
        if ends != before or not self._ends:
            self._turns.append(turn)
            self._ends.append(dict(ends))

    @property
    def first(self) -> int:
        """The first turn that was noted; -1 if none was."""
        return self._turns[0] if self._turns else -1

    def lines(self) -> list[str]:
        """What was noted, as lines for `of_lines`."""
        noted = [_line(turn, ends) for turn, ends in zip(self._turns, self._ends, strict=True)]
        return [*noted, self.last_line] if noted else []

    @property
    def last_line(self) -> str:
        """The line of the newest turn."""
        return _line(self.newest, self._ends[-1])

    def after(self, turn: int) -> Mapping[int, int]:
        """The ends after a turn that was noted, by partition."""
        at = bisect_left(self._turns, turn + 1) - 1
        return self._ends[at] if at >= 0 else {}

    def turns_of(self, partition: int) -> Turns:
        """What tells a record's turn in a partition."""
        ends = [ends.get(partition, 0) for ends in self._ends]
        return Turns(tuple(self._turns), np.array(ends, np.int64))


def _line(turn: int, ends: Mapping[int, int]) -> str:
    return f"{orjson.dumps([turn, list(ends.items())]).decode()}\n"


def of_lines(lines: Iterable[str], upto: int) -> TurnEnds:
    """What lines say of turns up to one. What follows a damaged line is lost."""
    known = TurnEnds()
    for line in lines:
        try:
            turn, noted = _LINE.decode(line)
        except msgspec.MsgspecError:
            break
        if turn <= upto:
            known.note(turn, dict(noted))
    return known


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns that were noted, and the end of a partition after each. Goes to the executors."""

    turns: tuple[int, ...]
    ends: Ints

    def of(self, offset: int) -> tuple[int, int]:
        """The turn of the record at an offset, the first one for all before it; and the end of the turn."""
        at = int(np.searchsorted(self.ends, offset, side="right"))
        return self.turns[at], int(self.ends[at])
