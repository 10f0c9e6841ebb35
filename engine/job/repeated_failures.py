"""Tells a job that goes round in circles from one that gets further between its failures.

Streaming goes on while a window is read again and again, so the position alone is no progress.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from engine.job.saved.state import State

_MOST: Final = 6
"""So often the executors may fail at the same place; the pauses between take half a minute."""


@dataclass(slots=True)
class RepeatedFailures:
    """Counts failures of the executors without progress in between."""

    _at: Any = None
    _times: int = 0

    def note(self, saved: State) -> bool:
        """Note a failure after this state was saved. Returns whether nothing has moved for too long.

        While rows are to be read, progress is theirs; else it is the stream's.
        """
        active = saved.snapshot.active
        at = active if active.tables else saved.position
        self._times = self._times + 1 if at == self._at else 1
        self._at = at
        return self._times >= _MOST
