"""The order of turns, for every judge: each comes once, or once more for each crash or failure."""

from __future__ import annotations

from tests.simulation.violation import Violation


class Turns:
    """Knows where each turn began.

    `position` is how far the stream has come. `pardons` counts crashes and failures, each of which lets one
    turn be sent again, unless the sink `knows` what it has.
    """

    def __init__(self, *, knows: bool) -> None:
        self.knows = knows
        self.position = self.last_turn = self.pardons = self.resent = 0
        self._begins: dict[int, int] = {}

    def forget(self) -> None:
        """A job begins anew, since nothing of an earlier one was saved: it may have sent its first turn."""
        self.last_turn = 0
        self._begins.clear()

    def starts(self, number: int) -> int | None:
        """A turn is sent. Returns where the stream goes back to, None if it goes on."""
        begin = None
        if number <= self.last_turn:
            begin = self._again(number)
        elif number != self.last_turn + 1 and self.last_turn:
            raise Violation(f"turn {number} was sent after turn {self.last_turn}")
        self.last_turn = number
        self._begins[number] = self.position if begin is None else begin
        return begin

    def _again(self, number: int) -> int:
        if self.knows:
            raise Violation(f"turn {number} was sent again, and the sink knows what it has")
        self.resent += 1
        if self.resent > self.pardons:
            raise Violation(f"turn {number} was sent again without a crash")
        begin = self._begins.get(number)
        if begin is None or number < self.last_turn:
            raise Violation(f"turn {number} was sent again after turn {self.last_turn}")
        return begin
