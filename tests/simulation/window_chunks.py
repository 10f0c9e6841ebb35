"""Where windows of a simulated source are staged, and which of them are cancelled: there is no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import SourceError
from tests.simulation.fallible_calls import ERRORS

if TYPE_CHECKING:
    from engine.staging.rows import StagingArea
    from tests.simulation.world import Life


class WindowChunks:
    """What the readers of all sources' windows share."""

    def __init__(self, life: Life, area: StagingArea) -> None:
        self._life, self._area = life, area
        self._cancelled: set[str] = set()

    def reach(self) -> None:
        """There is no Spark."""

    def area(self, window_id: str) -> StagingArea:
        """Where a window's rows are staged."""
        return self._area.within(window_id)

    def cancel(self, window_id: str) -> None:
        """Stop reading a window."""
        self._cancelled.add(window_id)

    def fail_by(self, *faults: str) -> None:
        """Raise the error of the fault among these that strikes now, if one does."""
        for fault in faults:
            if self._life.fault(fault):
                raise ERRORS[fault]()  # noqa: RSE102  it makes the error

    def refuse_cancelled(self, window_id: str) -> None:
        """Raise SourceError if the window was cancelled."""
        if window_id in self._cancelled:
            raise SourceError("the window was cancelled")
