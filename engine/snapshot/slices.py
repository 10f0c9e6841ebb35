"""How much of a window goes out in one turn. Pure; who sends it keeps the clock.

Sinks differ by orders of magnitude, so the size of a slice follows from what the last one took.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_TIMES = 4


@dataclass(slots=True)
class Slices:
    """How much goes out in a turn: what takes `slice_s` from the first byte to the sink's commit.

    The first time, `first_bytes`. Never less than a quarter of them: a store may take longer for any turn.
    Nor more than four times as many: a sink that takes files by their names may have to copy the next ones.
    """

    slice_s: float
    first_bytes: int
    most_bytes: float = field(init=False)
    _begun: tuple[int, float] | None = None

    def __post_init__(self) -> None:
        self.most_bytes = self.first_bytes

    def begin(self, size: int, now_s: float) -> None:
        """So many bytes are about to be written."""
        self._begun = (size, now_s)

    def end(self, now_s: float) -> None:
        """They are in the sink."""
        if self._begun is None:
            return
        (size, since_s), self._begun = self._begun, None
        if size:
            learned = size * self.slice_s / max(now_s - since_s, 0.001)
            self.most_bytes = min(max(self.first_bytes / _TIMES, learned), self.first_bytes * _TIMES)
