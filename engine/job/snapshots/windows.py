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
  (`Opened.ahead`), so B starts where A ends and no row is read twice.
- Therefore A must be emitted whole. No failure of B may change the queue under A: B is closed and judged only
  when it is read alone. If A is given up, so is B.
- A is emitted before B. Each window has its own watermark and its own superseded keys.
- A window may open while the stream goes on. What is streamed until it is open is the source's affair: it
  tells all that superseded its rows by then, when it is.
- An entry supersedes rows of both windows while they are open, until their last slice is emitted. B may
  already contain an entry that is newer than A. Dropping the row from B as well loses nothing, because the
  stream has carried it.

The merge rule itself is in `merge.py`. `window_scheduler.py` decides which window opens next and what a
failure means. The job (`loop.py`) saves and sends.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass, replace
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
from engine.job.snapshots.completion import ended, gave_up, note_steps, restless
from engine.job.snapshots.emission import Emission
from engine.job.snapshots.opened_window import Opened
from engine.job.snapshots.rows_beside import Taking
from engine.job.snapshots.window_scheduler import WindowScheduler
from engine.ports.sink import TakesRows
from engine.ports.source import TellsVisibility
from engine.snapshot.extent import Advance
from engine.snapshot.markers import NO_MARKERS, marks
from engine.snapshot.merge import Superseded
from engine.snapshot.merge_key import key_of, merge_keys_of
from engine.snapshot.pace.slices import Slices
from engine.verify.certified_ranges import Frontier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.job.parts import JobParts, Pace
    from engine.job.saved.state import State
    from engine.job.snapshots.emission import Emitted
    from engine.model import Limit, Part, Position, Run, Staged, Window
    from engine.ports.sink import PartWriter
    from engine.ports.source import Encoded
    from engine.snapshot.extent import Extent
    from engine.snapshot.pace.estimate import Speed
    from engine.snapshot.queue import Snapshot
    from engine.snapshot.queue_entry import Table

_log = logging.getLogger("engine")


_AT_ONCE = 2
"""The most windows in progress: one being emitted, one being read."""


class Windows:
    """Opens windows one after another and emits their surviving rows, in order."""

    def __init__(self, job_parts: JobParts, pace: Pace) -> None:
        self._parts, self._pace = job_parts, pace
        self._opened: list[Opened] = []
        self._opening = WindowScheduler(job_parts, pace)
        self._slices = Slices(pace.slice_s, pace.slice_bytes)

    @property
    def window(self) -> Window | None:
        """The window opened last, if any is in progress."""
        return self._opened[-1].window if self._opened else None

    @property
    def tickets(self) -> frozenset[int]:
        """The queue entries that the windows in progress read."""
        return frozenset(run.ticket for opened in self._opened for run in opened.window.runs)

    @property
    def read(self) -> bool:
        """Whether any window is read to its end and waits, for the stream or for its turn to be emitted."""
        return any(opened.staged is not None for opened in self._opened)

    def close(self) -> None:
        """Give up all windows in progress. Their rows will be read again."""
        self._give_up(0)

    def drop(self, tables: Sequence[Table]) -> None:
        """Give up the first window that reads one of these queue entries, and the window behind it."""
        tickets = {table.ticket for table in tables}
        self._give_up(next((at for at, opened in enumerate(self._opened) if opened.reads(tickets)), _AT_ONCE))

    def _give_up(self, first: int) -> None:
        """Close this window and those behind it, which start where it would have ended."""
        self._opened, given_up = self._opened[:first], self._opened[first:]
        self._parts.tally.given_up += len(given_up)
        self._tell()
        for opened in given_up:
            self._opening.closed(opened.window)
        with ExitStack() as closing:
            for opened in given_up:
                closing.callback(opened.reading.close)
                closing.callback(opened.beside.stop)

    # Emitting.

    def poll(self, state: State) -> State:
        """Check the progress of reading, and handle a window that failed."""
        for at, opened in enumerate(self._opened):
            try:
                staged = opened.reading.poll()
            except SourceError as error:
                if not opened.is_open:
                    self._give_up(at)
                    return self._unopened(state, error)
                self._parts.tally.failed(error)
                self._give_up(at)
                return self._failed(state, opened.window, error)
            except SinkRefused:
                raise
            except SinkError as error:
                # There was no room to stage rows. The log and the window in front are fine.
                self._parts.tally.failed(error)
                self._give_up(at)
                self._opening.held_up(error)
                return state
            self._note_open(opened)
            self._note(opened, staged, state.position)
        if self.may_emit(state):
            self._begin(self._opened[0], state)
        return state

    def _note_open(self, opened: Opened) -> None:
        if opened.opens():
            self._parts.tally.spent(Phase.OPEN, self._parts.clock() - opened.since_s)

    def _note(self, opened: Opened, staged: Sequence[Staged] | None, position: Position | None) -> None:
        if staged is None:
            return
        now_s = self._parts.clock()
        if opened.staged is None:
            opened.staged, opened.read_s = staged, now_s - opened.since_s
            rows, size = sum(file.rows for file in staged), sum(file.bytes for file in staged)
            self._opening.read(opened.window, rows, size)
            self._parts.tally.spent(Phase.READ, opened.read_s)
            self._tell()
        if not opened.reached and position is not None and opened.reading.reached(position):
            opened.reached, opened.reached_s = True, now_s
            waited_s = now_s - opened.since_s - opened.read_s
            self._opening.waited(waited_s)
            self._parts.tally.spent(Phase.WAIT, waited_s)

    def _failed(self, state: State, window: Window, error: SourceError) -> State:
        if isinstance(error, GaveWay):
            return self._opening.yielded(state, window, error, behind=bool(self._opened))
        if isinstance(error, SchemaChanged) or self._opened:
            # A failure behind another window is judged once that window is read alone.
            _log.warning("window %s is given up and will be read again: %s", window.id, error)
            self._opening.gave_way()
            return state
        if isinstance(error, TableBusy):
            return self._opening.refused(state, error)
        if isinstance(error, LoginRefused):
            self._opening.held_up(error)  # nothing is wrong with the rows
            return state
        return self._opening.failed(state, window, error)

    def has_rows(self, state: State) -> bool:
        """Whether the next turn has rows to emit, or progress to save of rows that went beside the turns."""
        if self._opened and self._opened[0].goes_beside:
            return self._opened[0].beside.any_taken
        return self.may_emit(state)

    def may_emit(self, state: State) -> bool:
        """Whether rows may be emitted at the state's position."""
        if not self._opened or self._opened[0].staged is None or state.position is None:
            return False
        return self._opened[0].reading.reached(state.position)

    def supersede(self, encoded: Encoded) -> None:
        """Add the keys that a span superseded to every open window, and to single windows by id.

        The window behind may already contain an entry that is newer than the window in front. A source that
        can't tell counts it for both. That loses nothing, because the stream has carried the entry.
        """
        for opened in self._opened:
            own = encoded.superseded_in.get(opened.window.id, Superseded())
            opened.superseded |= encoded.superseded | own

    def emit(self, state: State, writer: PartWriter, first_part: int) -> tuple[State, list[Part], int]:
        """If the watermark is reached, write the survivors of the next slice as parts from `first_part` on.

        Returns the state with the progress recorded, the parts, and how many READ events this progress is. Of
        a window that goes beside the turns, the progress of what the sink has taken is recorded, and nothing
        is written.
        """
        if not self.may_emit(state):
            return state, [], 0
        opened = self._opened[0]
        self._begin(opened, state)
        if opened.goes_beside:
            state, rows = self._taken(state, opened)
            return state, [], rows
        end, files = opened.next_slice(self._slices.most_bytes)
        runs = opened.window.runs[opened.sent : end]
        emissions = self._emissions(opened, state.snapshot, runs, files)
        numbered = [replace(emission, part=part) for part, emission in enumerate(emissions, first_part)]
        self._slices.begin(sum(file.bytes for file in files), self._parts.clock())
        emitted = self._write(numbered, writer)
        state = self._record(state, opened, runs, list(zip(files, emitted, strict=True)))
        self._sent(opened, end)
        return state, [result.part for result in emitted], sum(result.rows for result in emitted)

    def _begin(self, opened: Opened, state: State) -> None:
        """Begin to emit a window: decide whether it goes beside the turns."""
        if opened.emitting:
            return
        opened.emitting = True
        self._note(opened, opened.staged, state.position)
        rows = sum(file.rows for file in opened.waiting)
        self._opening.went_well(opened.window, rows, opened.read_s)
        incomplete = {fault.collection for fault in state.incomplete}
        opened.goes_beside = (
            isinstance(sink := self._parts.sink, TakesRows)
            and sink.takes_rows
            and rows > self._parts.local_rows
            # Compared rows go nowhere, and rows for a topic that refuses events must be kept with their turn.
            and not any(
                run.target.compared or run.target.collection in incomplete for run in opened.window.runs
            )
        )

    def _emissions(
        self, opened: Opened, snapshot: Snapshot, runs: Sequence[Run], files: Sequence[Staged]
    ) -> list[Emission]:
        """What these files are emitted as, behind everything that the snapshot has emitted."""
        known = self._parts.marks
        marked = [markers.among(known) for markers in marks(snapshot, runs, files)]
        newer = {file.collection: opened.superseded.of(file.collection) for file in files}
        # The hashes are the driver's alone.
        return [
            Emission(replace(file, hashes=None), newer[file.collection], 0, its)
            for file, its in zip(files, marked, strict=True)
        ]

    def _sent(self, opened: Opened, end: int) -> None:
        """Note that the runs before this one are emitted."""
        opened.sent = end
        if end == len(opened.window.runs):
            self._opened.remove(opened)
            opened.reading.close()
            self._parts.tally.spent(Phase.EMIT, self._parts.clock() - opened.reached_s)
        self._tell()

    # Rows that go beside the turns.

    def send_beside(self, state: State) -> None:
        """Give the sink more of the front window's runs. Raises SinkError, LeaseLost.

        Called between turns, when the sink has everything up to the state's position.
        """
        if not self.may_emit(state):
            return
        opened = self._opened[0]
        self._begin(opened, state)
        sink = self._parts.sink
        room = self._parts.tasks() - len(opened.beside)
        if not opened.goes_beside or room <= 0 or opened.next_file is None or not isinstance(sink, TakesRows):
            return
        for _ in range(room):
            if not sink.may_take_rows():
                return
            self._parts.lease.check()
            taking = self._next_beside(opened, state, sink)
            if taking is None:
                return
            opened.beside.start(taking)

    def _next_beside(self, opened: Opened, state: State, sink: TakesRows) -> Taking | None:
        """Start the next run; None if there is none, or if it must wait for those before it.

        The first and the last rows of a table may carry snapshot markers, so they go alone: whether a row is
        the first depends on what survives of the runs before it.
        """
        file = opened.next_file
        if file is None or state.position is None:
            return None
        end = opened.end_of(file)
        runs = opened.window.runs[opened.beside.started : end]
        (emission,) = self._emissions(opened, opened.beside.behind(state.snapshot), runs, [file])
        if emission.marks != NO_MARKERS and len(opened.beside):
            return None
        way = sink.take_rows(emission, self._parts.topic(file.collection))
        return Taking(file, runs, end, state.position, way)

    def _taken(self, state: State, opened: Opened) -> tuple[State, int]:
        """Record the progress of what the sink has taken. Returns also how many READ events these are."""
        rows = 0
        for taking, emitted in opened.beside.taken():
            rows += emitted.rows
            there = replace(state, position=taking.position)
            there = self._record(there, opened, taking.runs, [(taking.staged, emitted)])
            state = replace(there, position=state.position)
            self._sent(opened, taking.end)
        return state, rows

    def give_way(self, encoded: Encoded) -> None:
        """Wait until the sink has the rows on their way that a span touches.

        Raises SinkError or SourceError.
        """
        for opened in self._opened:
            own = encoded.superseded_in.get(opened.window.id, Superseded())
            opened.beside.wait_for(encoded.superseded | own)

    def wait_for_rows(self) -> None:
        """Wait until the sink has every row on its way. Raises SinkError or SourceError."""
        for opened in self._opened:
            opened.beside.wait()

    def committed(self) -> None:
        """Note that the sink has committed a turn, to learn how long a slice takes."""
        self._slices.end(self._parts.clock())

    def _write(self, emissions: Sequence[Emission], writer: PartWriter) -> list[Emitted]:
        if sum(emission.staged.rows for emission in emissions) <= self._parts.local_rows:
            return [emission.write(writer) for emission in emissions]
        return self._parts.executors.map(EmitTo(writer), emissions)

    def _record(
        self,
        state: State,
        opened: Opened,
        runs: Sequence[Run],
        results: Sequence[tuple[Staged, Emitted]],
    ) -> State:
        for ticket in dict.fromkeys(run.ticket for run in runs):
            mine = [(read, sent) for read, sent in results if read.ticket == ticket]
            advance = _advance(opened, _runs_of(runs, ticket), mine)
            if advance.runs[0].target.compared:
                compared = [sent for _read, sent in mine]
                self._parts.verification.note(state.turn, advance.runs, compared, opened.superseded.of)
            elif not advance.runs[0].target.judged:
                advance = self._certified(state, opened, advance, mine)
            if advance.uncounted:
                self._opening.gave_way()
            before = state.snapshot.find(ticket)
            self._parts.tally.snapshots.rows(before, advance)
            rounds = before.progress.rounds if before and before.progress else 0
            state = replace(state, snapshot=state.snapshot.advanced(advance))
            note_steps(before, state.snapshot.find(ticket), self._parts.listener)
            state = self._restless(state, ticket, rounds)
        return ended(state, self._parts)

    def _certified(
        self,
        state: State,
        opened: Opened,
        advance: Advance,
        results: Sequence[tuple[Staged, Emitted]],
    ) -> Advance:
        """The advance with what its certificate will say."""
        certificates, position = self._parts.certificates, state.position
        if certificates is None or position is None:
            return advance
        reading = opened.reading
        visible = reading.visible if isinstance(reading, TellsVisibility) else ""
        numbered = enumerate(opened.window.runs[opened.sent :], opened.sent)
        runs = {number: run for number, run in numbered if run in advance.runs}
        sent = certificates.sent(runs, results, Frontier(self._parts.show(position), visible))
        return replace(advance, certified=sent)

    def _restless(self, state: State, ticket: int, rounds: int) -> State:
        """Space out the rounds of a collection whose last rows change while they are read again.

        After `Pace.reread_rounds` rounds the collection is given up. `rounds` is the count before this slice.
        """
        table = state.snapshot.find(ticket)
        if table is None or table.progress is None or table.progress.done:
            return state
        if table.progress.rounds < self._pace.reread_rounds:
            if table.progress.rounds > rounds:
                self._opening.rest(table)
            return state
        return gave_up(state, self._parts.listener, [table], restless(table))

    # Opening.

    def speed(self, limit: Limit, extent: Extent) -> Speed:
        """How fast a collection would be read within a limit and the job's."""
        return self._opening.speed(limit, extent)

    def consider(self, state: State, lag_s: float) -> State:
        """Open the next window if there is something to read and the stream keeps up."""
        crowded = [table for table in state.snapshot.measured if self._crowded(table)]
        if crowded:
            self.drop(crowded)
            state = self._opening.crowded(state, crowded)
        if len(self._opened) == _AT_ONCE or any(opened.staged is None for opened in self._opened):
            return state
        try:
            state, window = self._opening.next(
                state, lag_s, [advance for opened in self._opened for advance in opened.ahead()]
            )
            if window is None:
                return state
            self._open(state, window)
        except SourceError as error:
            return self._unopened(state, error)
        before = {run.ticket for opened in self._opened[:-1] for run in opened.window.runs}
        tickets = {run.ticket for run in window.runs} - before
        return replace(state, snapshot=state.snapshot.opened(tickets, int(self._parts.now() * 1000)))

    def _unopened(self, state: State, error: SourceError) -> State:
        """Handle a window that did not open. Raises the error if the session has to end."""
        if isinstance(error, TableBusy | SchemaChanged):
            return self._opening.refused(state, error, behind=bool(self._opened))
        if isinstance(error, PositionLost) or not self._opened:
            raise error
        # A lost session shows in the log, or when the next window opens alone.
        _log.warning("the next window does not open yet: %s", error)
        self._opening.gave_way()
        return state

    def _crowded(self, table: Table) -> bool:
        return table.progress is not None and len(table.progress.reread) > self._pace.most_reread

    def _open(self, state: State, window: Window) -> None:
        since_s = self._parts.clock()
        reading = self._parts.source.open_window(window)
        self._opening.opened(state, window)
        self._opened.append(Opened(window, reading, since_s))
        self._note_open(self._opened[-1])
        self._tell()

    def _tell(self) -> None:
        """Say which windows are in progress, and how much of them waits to be emitted."""
        waiting = sum(file.bytes for opened in self._opened for file in opened.waiting)
        self._parts.tally.in_progress([opened.window for opened in self._opened], waiting)


def _runs_of(runs: Sequence[Run], ticket: int) -> tuple[Run, ...]:
    return tuple(run for run in runs if run.ticket == ticket)


def _advance(opened: Opened, runs: tuple[Run, ...], results: Sequence[tuple[Staged, Emitted]]) -> Advance:
    """What a slice did for an entry. Rows that are compared are read again only if that decides something."""
    dropped = [key for _read, sent in results for key in sent.lacking]
    asked = [key for run in runs for key in run.keys]
    reread = merge_keys_of(asked)
    unsent = opened.superseded.unsent(runs[0].target.collection, dropped, reread)
    return Advance(
        ticket=runs[0].ticket,
        runs=runs,
        rows=sum(read.rows for read, _sent in results),
        emitted=sum(sent.rows for _read, sent in results),
        bytes=sum(read.bytes for read, _sent in results),
        lacking=frozenset(() if runs[0].target.compared else map(key_of, unsent)),
        uncounted=opened.hidden.of(runs[0].target.collection).names(reread),
    )


@dataclass(frozen=True, slots=True)
class EmitTo:
    """The task that writes one emission. Goes to the executors."""

    writer: PartWriter

    def __call__(self, emission: Emission) -> Emitted:
        """Write the emission."""
        return emission.write(self.writer)
