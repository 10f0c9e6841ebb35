"""A window in progress: its plan, what it has read, and how much of that is emitted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.job.snapshots.rows_beside import RowsBeside
from engine.snapshot.extent import Advance
from engine.snapshot.merge import SupersededKeys

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from engine.model import Position, Run, StagedRun, Window
    from engine.ports.source import OpenWindow


@dataclass(slots=True)
class OpenedWindow:
    """A window in progress: its plan, and what has superseded its rows so far.

    `hidden` is what was superseded before the window was open, by changes that the window can't see. The
    first `sent` runs have been emitted. `staged` holds the rows once all of them are read, which took
    `read_s` seconds. `reached` says whether the stream has passed the watermark since then, at `reached_s`.
    """

    window: Window
    reading: OpenWindow
    since_s: float
    superseded: SupersededKeys = field(default_factory=SupersededKeys)
    hidden: SupersededKeys = field(default_factory=SupersededKeys)
    is_open: bool = False
    staged: Sequence[StagedRun] | None = None
    read_s: float = 0.0
    reached: bool = False
    reached_s: float = 0.0
    sent: int = 0
    emitting: bool = False
    goes_beside: bool = False
    beside: RowsBeside = field(default_factory=RowsBeside)

    def opens(self) -> bool:
        """Whether it is open only now. Its source reported nothing before, so nothing was superseded."""
        superseded = self.reading.superseded
        if self.is_open or superseded is None:
            return False
        self.is_open, self.superseded, self.hidden = True, superseded, superseded
        return True

    def reads(self, tickets: Collection[int]) -> bool:
        """Whether it reads one of these queue entries."""
        return any(run.ticket in tickets for run in self.window.runs)

    def may_emit(self, position: Position | None) -> bool:
        """Whether its rows may be emitted at this position: all are read, and the stream has passed them."""
        if self.staged is None or position is None:
            return False
        return self.reading.reached(position)

    @property
    def waiting(self) -> list[StagedRun]:
        """The files that are not yet emitted."""
        return [file for file in self.staged or () if file.run >= self.sent]

    @property
    def next_file(self) -> StagedRun | None:
        """The next file to go beside the turns."""
        return next((file for file in self.staged or () if file.run >= self.beside.started), None)

    def end_of(self, file: StagedRun) -> int:
        """The number of the run behind a file: that of the next file, or of no run."""
        later = (other.run for other in self.staged or () if other.run > file.run)
        return min(later, default=len(self.window.runs))

    def next_slice(self, most_bytes: float, together: int = 1) -> tuple[int, list[StagedRun]]:
        """The next slice: the number of the run behind it, and its files.

        It holds `together` files, if so many are left. More are added only up to `most_bytes`.
        """
        size = 0
        taken: list[StagedRun] = []
        for file in self.waiting:
            size += file.bytes
            if len(taken) >= together and size > most_bytes:
                return file.run, taken
            taken.append(file)
        return len(self.window.runs), taken

    def ahead(self) -> list[Advance]:
        """The progress it will have made once all of it is emitted, if nothing has to be read again."""
        runs: dict[int, list[Run]] = {}
        rows: Counter[int] = Counter()
        size: Counter[int] = Counter()
        for run in self.window.runs[self.sent :]:
            runs.setdefault(run.ticket, []).append(run)
        for file in self.waiting:
            rows[file.ticket] += file.rows
            size[file.ticket] += file.bytes
        return [
            Advance(ticket, tuple(its), rows=rows[ticket], bytes=size[ticket]) for ticket, its in runs.items()
        ]
