"""Dry runs: signals that ask what a snapshot would read. They are answered at once, and nothing is queued."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import SignalError
from engine.snapshot.extent import Extent
from engine.snapshot.pace.estimate import Estimate, estimate
from engine.snapshot.queue_entry import entry_of

if TYPE_CHECKING:
    from engine.job.parts import JobParts, Pace
    from engine.job.snapshots.windows import Windows
    from engine.model import ExecuteSnapshot

MEASURED = 500
LONGEST_S = 2.0
"""How many collections the dry runs of one turn may measure, and for how long: the stream waits meanwhile."""


class DryRuns:
    """Answers dry runs from the collections' extents and the speed of `windows`."""

    def __init__(self, job_parts: JobParts, pace: Pace, windows: Windows) -> None:
        self._parts, self._pace, self._windows = job_parts, pace, windows
        self._left, self._until_s = MEASURED, 0.0

    def begin_turn(self) -> None:
        """Allow for this turn's measurements."""
        self._left, self._until_s = MEASURED, self._parts.clock() + LONGEST_S

    def answer(self, command: ExecuteSnapshot) -> None:
        """Answer for each collection what would be read, or why it can't be read."""
        answers, count = self._parts.desk.answers, len(command.targets)
        if count > self._left or self._parts.clock() >= self._until_s:
            error = SignalError(
                f"dry runs of more than {MEASURED} collections at once, or that take more than"
                f" {LONGEST_S:g} s together, are not taken",
                hint="name fewer collections, or send the signal again later",
            )
            answers.refused(command, error)
            return
        self._left -= count
        extents = self._parts.source.tables().measure(command.targets)
        for target, extent in zip(command.targets, extents, strict=True):
            if isinstance(extent, Extent):
                answers.planned(entry_of(command, target), self._estimate(command, extent))
            else:
                answers.failed(entry_of(command, target), extent)

    def _estimate(self, command: ExecuteSnapshot, extent: Extent) -> Estimate:
        return estimate(extent, self._pace.chunk_rows, self._windows.speed(command.limit, extent))
