"""How fast windows have been read, which sizes the next one. Pure; the job keeps the clock.

A window takes a fixed time, for its snapshot, its queries and its watermark, and a time per row. Only
the latter says how many rows to read next: a machine where the fixed part alone takes longer than a
window should would otherwise read fewer rows each time, and end with almost none.
"""

from __future__ import annotations

from dataclasses import dataclass

_REMEMBERED = 8
_WORTH_LEARNING = 10_000  # rows; fewer may show a higher rate, but no lower one
_LEAST_SHARE = 0.5
_WAITS = 4


def reading_s(window_s: float, waited_s: float, longest_s: float) -> float:
    """How long the next window shall be read, given how long the last ones waited for their watermark.

    Where that takes seconds whatever a window holds, a longer one pays it less often: several times as long
    as it waits, up to the longest.
    """
    return max(window_s, min(_WAITS * waited_s, longest_s))


@dataclass(frozen=True, slots=True)
class Rate:
    """Rows per second beyond the fixed time, 0 before any is known; `recent_s`: the last windows' times."""

    rows_per_s: float = 0.0
    recent_s: tuple[float, ...] = ()

    def learned(self, rows: int, elapsed_s: float) -> Rate:
        """The rate after a window of `rows` rows that took `elapsed_s` from its opening to its end.

        The fixed time is at most the shortest window's. When all windows took alike, half of it is
        taken for fixed: the next window becomes larger and tells.
        """
        elapsed_s = max(elapsed_s, 0.001)
        recent_s = (*self.recent_s, elapsed_s)[-_REMEMBERED:]
        per_s = rows / max(elapsed_s - min(recent_s), _LEAST_SHARE * elapsed_s)
        if rows < _WORTH_LEARNING and not 0 < self.rows_per_s < per_s:
            return Rate(self.rows_per_s, recent_s)
        return Rate((self.rows_per_s + per_s) / 2 if self.rows_per_s else per_s, recent_s)
