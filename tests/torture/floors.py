"""How often a long run must have brought about what is rare: less would prove nothing.

The floors are for twenty minutes on two cores, about a third of what was seen there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

LONG_MINUTES = 10.0
_PER_MINUTES = 20.0
FLOORS: Mapping[str, Mapping[str, int]] = {
    "mongodb": {
        "renamed onto in an open window": 30,
        "away and back in an open window": 30,
        "replaced by $out in an open window": 30,
        "stopped in an open window": 10,
    },
}
"""By source, and what is counted."""


def missed(source: str, minutes: float, happened: Counter[str]) -> list[str]:
    """What has happened too rarely, in words; a short run need not have seen anything."""
    if minutes < LONG_MINUTES:
        return []
    wanted = {name: int(count * minutes / _PER_MINUTES) for name, count in FLOORS.get(source, {}).items()}
    return [
        f"{name}: {happened[name]}, and {least} are wanted"
        for name, least in wanted.items()
        if happened[name] < least
    ]
