"""How much of the log goes into a turn. Pure; who sends it keeps the clock.

Only a turn that is sent can be saved and acknowledged, and one that fails is sent again from its first event.
So a sink that is slow gets smaller turns: what it takes in some seconds, as a share of the largest span.
"""

from __future__ import annotations

from dataclasses import dataclass

_LONGEST_S = 10.0
_SHORT_S = 2.5
_LEAST = 1 / 1024


@dataclass(frozen=True, slots=True)
class TurnSize:
    """The share of a span's bounds that a turn may use."""

    share: float = 1.0

    def took(self, seconds: float) -> TurnSize:
        """The size after a turn that the sink took so long for."""
        if seconds > _LONGEST_S:
            return TurnSize(max(_LEAST, self.share * _LONGEST_S / seconds))
        return TurnSize(min(1.0, 2 * self.share)) if seconds < _SHORT_S else self

    def failed(self) -> TurnSize:
        """The size after a turn that the sink did not take."""
        return TurnSize(max(_LEAST, self.share / 2))
