"""The snapshot side of a turn: the windows in progress and what happens to their rows.

At most two windows are in progress. The one in front (A) waits for the stream and is then emitted, run by
run, in slices small enough to keep turns short. Meanwhile the one behind it (B) is read:

    turn            1     2     3     4     5     6     7     8
    window A       read  read  wait  emit  emit
    window B                   read  read  wait  emit  emit
    window C                                     read  read  wait
                                ▲                 ▲
                                B opens, as if    C opens, as if B
                                A were emitted    were emitted

The rules, and why they hold:

- B opens once all rows of A are read. It is planned against the queue as it will be after A
  (`OpenedWindow.ahead`), so B starts where A ends and no row is read twice.
- Therefore A must be emitted whole. No failure of B may change the queue under A: B is closed and judged only
  when it is read alone. If A is given up, so is B.
- A is emitted before B. Each window has its own watermark and its own superseded keys.
- A window may open while the stream goes on. What is streamed until it is open is the source's affair: it
  tells all that superseded its rows by then, when it is.
- An entry supersedes rows of both windows while they are open, until their last slice is emitted. B may
  already contain an entry that is newer than A. Dropping the row from B as well loses nothing, because the
  stream has carried it.

The merge rule itself is in `merge.py`. `windows_in_progress.py` has the windows and how they end.
`window_scheduler.py` decides which window opens next and what a failure means. `emitter.py` emits the rows.
The job's turns (`turns.py`) save and send.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.errors import (
    GaveWay,
    LoginRefused,
    PositionLost,
    SchemaChanged,
    SinkError,
    SinkRefused,
    SourceError,
    TableBusy,
)
from engine.job.reports.tally import Phase
from engine.job.snapshots.emitter import Emitter
from engine.job.snapshots.opened_window import OpenedWindow
from engine.job.snapshots.window_scheduler import WindowScheduler
from engine.job.snapshots.windows_in_progress import WindowsInProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.job.parts import JobParts, Pace
    from engine.job.saved.state import State
    from engine.model import Limit, Part, Position, StagedRun, Window
    from engine.ports.sink import PartWriter
    from engine.snapshot.extent import Extent
    from engine.snapshot.pace.estimate import Speed
    from engine.snapshot.queue_entry import Table

_log = logging.getLogger("engine")


class Windows:
    """Opens windows one after another and emits their surviving rows, in order.

    `wake` is called, from any thread, when there is something new to poll.
    """

    def __init__(self, job_parts: JobParts, pace: Pace) -> None:
        self._parts, self._pace = job_parts, pace
        self._opening = WindowScheduler(job_parts, pace)
        self._emitter = Emitter(job_parts, pace, self._opening, self._wake)
        self.in_progress = WindowsInProgress(job_parts, self._opening.size)
        self.wake: Callable[[], None] = lambda: None

    # Emitting.

    def poll(self, state: State) -> State:
        """Check the progress of reading, and handle a window that failed. Resend rows that must go again."""
        for at, opened in enumerate(self.in_progress.opened):
            opened.beside.poll()
            try:
                staged = opened.reading.poll()
            except SourceError as error:
                if not opened.is_open:
                    self.in_progress.give_up(at)
                    return self._handle_unopened(state, error)
                self._parts.tally.count_error(error)
                self.in_progress.give_up(at)
                return self._handle_failure(state, opened.window, error)
            except SinkRefused:
                raise
            except SinkError as error:
                # There was no room to stage rows. The log and the window in front are fine.
                self._parts.tally.count_error(error)
                self.in_progress.give_up(at)
                self._opening.pauses.hold_up(error)
                return state
            self._note_open(opened)
            self._note(opened, staged, state.position)
        if front := self._ready(state):
            self._begin(front, state)
        return state

    def _note_open(self, opened: OpenedWindow) -> None:
        if opened.opens():
            self._parts.tally.add_time(Phase.OPEN, self._parts.clock() - opened.since_s)

    def _note(
        self, opened: OpenedWindow, staged: Sequence[StagedRun] | None, position: Position | None
    ) -> None:
        if staged is None:
            return
        now_s = self._parts.clock()
        if opened.staged is None:
            opened.staged, opened.read_s = staged, now_s - opened.since_s
            rows, size = sum(file.rows for file in staged), sum(file.bytes for file in staged)
            self._opening.size.note_read(opened.window, rows, size)
            self._parts.tally.add_time(Phase.READ, opened.read_s)
            self.in_progress.report()
        if not opened.reached and position is not None and opened.reading.reached(position):
            opened.reached, opened.reached_s = True, now_s
            waited_s = now_s - opened.since_s - opened.read_s
            self._opening.size.note_wait(waited_s)
            self._parts.tally.add_time(Phase.WAIT, waited_s)

    def _handle_failure(self, state: State, window: Window, error: SourceError) -> State:
        if isinstance(error, GaveWay):
            return self._opening.handle_yield(state, window, error, behind=bool(self.in_progress.opened))
        if isinstance(error, SchemaChanged) or self.in_progress.opened:
            # A failure behind another window is judged once that window is read alone.
            _log.warning("window %s is given up and will be read again: %s", window.id, error)
            self._opening.pauses.give_way()
            return state
        if isinstance(error, TableBusy):
            return self._opening.handle_refusal(state, error)
        if isinstance(error, LoginRefused):
            self._opening.pauses.hold_up(error)  # nothing is wrong with the rows
            return state
        return self._opening.handle_failure(state, window, error)

    def has_rows(self, state: State) -> bool:
        """Whether the next turn has rows to emit, or progress to save of rows that went beside the turns."""
        front = self.in_progress.front
        if front is not None and front.goes_beside:
            return front.beside.any_taken
        return self._ready(state) is not None

    def _ready(self, state: State) -> OpenedWindow | None:
        """The window in front, if its rows may be emitted at the state's position."""
        front = self.in_progress.front
        return front if front is not None and front.may_emit(state.position) else None

    def emit(self, state: State, writer: PartWriter, first_part: int) -> tuple[State, list[Part], int]:
        """If the watermark is reached, emit the next slice of the window in front: see `Emitter.emit`."""
        opened = self._ready(state)
        if opened is None:
            return state, [], 0
        self._begin(opened, state)
        state, parts, rows = self._emitter.emit(state, opened, writer, first_part)
        if opened.sent == len(opened.window.runs):
            self.in_progress.end_front()
            self._parts.tally.add_time(Phase.EMIT, self._parts.clock() - opened.reached_s)
        self.in_progress.report()
        return state, parts, rows

    def _begin(self, opened: OpenedWindow, state: State) -> None:
        if not opened.emitting:
            self._note(opened, opened.staged, state.position)
            self._emitter.begin(opened, state)

    def note_commit(self) -> None:
        """Note that the sink has committed a turn."""
        self._emitter.note_commit()

    # Rows that go beside the turns.

    def send_beside(self, state: State) -> None:
        """Give the sink more of the front window's runs. Raises SinkError, LeaseLost.

        Called between turns, when the sink has everything up to the state's position.
        """
        if front := self._ready(state):
            self._begin(front, state)
            self._emitter.send_beside(front, state)

    # Opening. What is measured may be answered at once. So its state counts even if no window opens then.

    def speed(self, limit: Limit, extent: Extent) -> Speed:
        """How fast a collection would be read within a limit and the job's."""
        return self._opening.size.speed(limit, extent)

    def measure(self, state: State, lag_s: float) -> tuple[State, bool]:
        """Measure what is read next. Returns as well whether a window may open now."""
        crowded = [table for table in state.snapshot.measured if self._is_crowded(table)]
        if crowded:
            self.in_progress.drop(crowded)
            return self._opening.restart_crowded(state, crowded), False
        if not self.in_progress.has_room:
            return state, False
        ahead = self.in_progress.ahead()
        if not self._opening.may_open(state, lag_s, ahead):
            return state, False
        try:
            return self._opening.measured(state, ahead), True
        except SourceError as error:
            return self._handle_unopened(state, error), False

    def open_next(self, state: State) -> State:
        """Open the next window if there is something to read."""
        before = self.in_progress.tickets
        try:
            state, window = self._opening.next_window(state, self.in_progress.ahead())
            if window is None:
                return state
            self._open(state, window)
        except SourceError as error:
            return self._handle_unopened(state, error)
        tickets, now_ms = {run.ticket for run in window.runs} - before, int(self._parts.now() * 1000)
        opened = state.snapshot.changed(tickets, lambda table: table.opened(now_ms))
        return replace(state, snapshot=opened)

    def _handle_unopened(self, state: State, error: SourceError) -> State:
        """Handle a window that did not open. Raises the error if the session has to end."""
        if isinstance(error, TableBusy | SchemaChanged):
            return self._opening.handle_refusal(state, error, behind=bool(self.in_progress.opened))
        if isinstance(error, PositionLost) or not self.in_progress.opened:
            raise error
        # A lost session shows in the log, or when the next window opens alone.
        _log.warning("the next window does not open yet: %s", error)
        self._opening.pauses.give_way()
        return state

    def _is_crowded(self, table: Table) -> bool:
        return table.progress is not None and len(table.progress.reread) > self._pace.most_reread

    def _open(self, state: State, window: Window) -> None:
        since_s = self._parts.clock()
        reading = self._parts.source.open_window(window)
        reading.watch(self._wake)
        self._opening.size.note_opened(state, window)
        opened = OpenedWindow(window, reading, since_s)
        self.in_progress.add(opened)
        self._note_open(opened)
        self.in_progress.report()

    def _wake(self) -> None:
        self.wake()  # the log may be another one by now
