"""The speed of recent windows, which sizes the next one. Pure: the caller measures time.

A window takes a fixed time (snapshot, queries, watermark) plus a time per row. Only the latter says how many
rows to read next. Otherwise a machine whose fixed time exceeds the target for a window would read fewer rows
each time, down to almost none.
"""

from __future__ import annotations

from dataclasses import dataclass

_REMEMBERED = 8
_WORTH_LEARNING = 10_000  # rows; smaller windows may raise the rate but not lower it
_LEAST_SHARE = 0.5
_WAITS = 4


def reading_s(window_s: float, waited_s: float, longest_s: float) -> float:
    """How long reading the next window should take, given how long the last ones waited for their watermark.

    If that wait takes seconds for any window, larger windows pay it less often. The target is then four times
    the wait, up to `longest_s`.
    """
    return max(window_s, min(_WAITS * waited_s, longest_s))


@dataclass(frozen=True, slots=True)
class Rate:
    """Rows per second without the fixed time, 0 while unknown. `recent_s`: the times of the last windows."""

    rows_per_s: float = 0.0
    recent_s: tuple[float, ...] = ()

    def learned(self, rows: int, elapsed_s: float) -> Rate:
        """The rate after a window of `rows` rows that took `elapsed_s` from its opening to its last row.

        The fixed time is estimated as the shortest recent window's time, but at most half of `elapsed_s`. If
        all windows took equally long, the next one becomes larger, which shows the true rate.
        """
        elapsed_s = max(elapsed_s, 0.001)
        recent_s = (*self.recent_s, elapsed_s)[-_REMEMBERED:]
        per_s = rows / max(elapsed_s - min(recent_s), _LEAST_SHARE * elapsed_s)
        if rows < _WORTH_LEARNING and not 0 < self.rows_per_s < per_s:
            return Rate(self.rows_per_s, recent_s)
        return Rate((self.rows_per_s + per_s) / 2 if self.rows_per_s else per_s, recent_s)
