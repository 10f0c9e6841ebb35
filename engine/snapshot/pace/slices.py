"""How much of a window is emitted in one turn. Pure: the caller measures time.

Sinks differ by orders of magnitude, so the size of a slice follows from how long the last one took.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_TIMES = 4


@dataclass(slots=True)
class Slices:
    """The size of a slice: what takes `slice_s` from the first byte to the sink's commit.

    It starts at `first_bytes`. The lower bound is a quarter of that, because some stores are slow for any
    turn. The upper bound is four times that, because a sink that links files may have to copy the next ones.
    """

    slice_s: float
    first_bytes: int
    most_bytes: float = field(init=False)
    _begun: tuple[int, float] | None = None

    def __post_init__(self) -> None:
        self.most_bytes = self.first_bytes

    def begin(self, size: int, now_s: float) -> None:
        """Note that `size` bytes are about to be written."""
        self._begun = (size, now_s)

    def end(self, now_s: float) -> None:
        """Note that they are in the sink, and learn from the time taken."""
        if self._begun is None:
            return
        (size, since_s), self._begun = self._begun, None
        if size:
            learned = size * self.slice_s / max(now_s - since_s, 0.001)
            self.most_bytes = min(max(self.first_bytes / _TIMES, learned), self.first_bytes * _TIMES)
