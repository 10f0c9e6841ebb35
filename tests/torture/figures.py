"""What a run of the torture test has done, as one line of figures."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields


@dataclass(slots=True)
class Figures:
    """Counts over all histories: `kills` by the step at which the job died, `answers` by outcome.

    `kinds` counts what a long run must include.
    """

    histories: int = 0
    transactions: int = 0
    events: int = 0
    windows: int = 0
    reads: int = 0
    superseded: int = 0
    signals: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    broker_kills: int = 0
    sent_again: int = 0
    initial_snapshots: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    repeated_answers: int = 0
    violations: int = 0
    cut_short: int = 0
    """Histories that an error of the test ended; `histories` are without them."""

    def add(self, other: Figures) -> None:
        """Add the figures of another history."""
        for attribute in fields(self):
            mine = getattr(self, attribute.name)
            if isinstance(mine, Counter):
                mine.update(getattr(other, attribute.name))
            else:
                setattr(self, attribute.name, mine + getattr(other, attribute.name))

    def line(self) -> str:
        """All figures in one line."""
        return "; ".join(
            f"{attribute.name.replace('_', ' ')} {_shown(getattr(self, attribute.name))}"
            for attribute in fields(self)
        )


def _shown(value: int | Counter[str]) -> str:
    if isinstance(value, Counter):
        parts = ", ".join(f"{name} {count}" for name, count in sorted(value.items()))
        return f"{value.total()} ({parts})" if parts else "0"
    return str(value)
