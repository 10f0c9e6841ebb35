"""How much of the log goes into a turn. Pure: the caller measures time.

Only a turn that was sent can be saved and acknowledged, and a turn that fails is sent again from its first
event. So a slow sink gets smaller turns, of a few seconds each, as a share of the largest span.
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

    def after_turn(self, seconds: float) -> TurnSize:
        """The size after the sink took `seconds` for a turn."""
        if seconds > _LONGEST_S:
            return TurnSize(max(_LEAST, self.share * _LONGEST_S / seconds))
        return TurnSize(min(1.0, 2 * self.share)) if seconds < _SHORT_S else self

    def after_failure(self) -> TurnSize:
        """The size after a turn that failed."""
        return TurnSize(max(_LEAST, self.share / 2))
