"""Emits the rows of the window in front, slice by slice with the turns, or run by run beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.job.snapshots.emission import Emission, EmitTo
from engine.job.snapshots.rows_beside import RunInFlight
from engine.job.snapshots.slice_record import SliceRecords
from engine.ports.sink import TakesRows
from engine.snapshot.markers import NO_MARKERS, marks
from engine.snapshot.pace.slices import Slices

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.job.parts import JobParts, Pace
    from engine.job.saved.state import State
    from engine.job.snapshots.emission import EmissionResult
    from engine.job.snapshots.opened_window import OpenedWindow
    from engine.job.snapshots.window_scheduler import WindowScheduler
    from engine.model import Part, Run, StagedRun
    from engine.ports.sink import PartWriter
    from engine.snapshot.markers import Markers
    from engine.snapshot.merge import NewerKeys
    from engine.snapshot.queue import Snapshot


def _emission(file: StagedRun, newer: NewerKeys, its: Markers) -> Emission:
    """A file to be emitted. The hashes of its keys are the driver's alone.

    A file with hashes goes with the superseded keys of its own rows. Files without them share all of the
    superseded keys, which go to the tasks of a slice once.
    """
    if file.hashes is None:
        return Emission(file, newer, 0, its)
    return Emission(replace(file, hashes=None), newer.within(file.hashes), 0, its)


class Emitter:
    """Emits windows whose watermark the stream has passed. Moves `OpenedWindow.sent` on.

    `changed` is called, from any thread, when something has become of rows that go beside the turns.
    """

    def __init__(
        self, job_parts: JobParts, pace: Pace, opening: WindowScheduler, changed: Callable[[], None]
    ) -> None:
        self._parts, self._opening = job_parts, opening
        self._records = SliceRecords(job_parts, pace, opening)
        self._changed = changed
        self._slices, self._spreads = Slices(pace.slice_s, pace.slice_bytes), pace.spreads

    def begin(self, opened: OpenedWindow, state: State) -> None:
        """Begin to emit a window: decide whether it goes beside the turns."""
        opened.emitting = True
        rows = sum(file.rows for file in opened.waiting)
        self._opening.note_success(opened.window, rows, opened.read_s)
        incomplete = {fault.collection for fault in state.incomplete}
        opened.goes_beside = (
            rows > self._parts.local_rows
            and isinstance(sink := self._parts.sink, TakesRows)
            and sink.takes_rows
            # Compared rows go nowhere, and rows for a topic that refuses events must be kept with their turn.
            and not any(
                run.target.compared or run.target.collection in incomplete for run in opened.window.runs
            )
        )

    # With the turns.

    def emit(
        self, state: State, opened: OpenedWindow, writer: PartWriter, first_part: int
    ) -> tuple[State, list[Part], int]:
        """Write the survivors of the next slice as parts from `first_part` on.

        Returns the state with the progress recorded, the parts, and how many READ events this progress is. Of
        a window that goes beside the turns, the progress of what the sink has taken is recorded, and nothing
        is written.
        """
        if opened.goes_beside:
            state, rows = self._record_taken(state, opened)
            return state, [], rows
        end, files = opened.next_slice(self._slices.most_bytes, self._together(opened))
        runs = opened.window.runs[opened.sent : end]
        emissions = self._emissions(opened, state.snapshot, runs, files)
        numbered = [replace(emission, part=part) for part, emission in enumerate(emissions, first_part)]
        self._slices.begin(sum(file.bytes for file in files), self._parts.clock())
        emitted = self._write(numbered, writer)
        state = self._records.record(state, opened, runs, list(zip(files, emitted, strict=True)))
        opened.sent = end
        return state, [result.part for result in emitted], sum(result.rows for result in emitted)

    def _together(self, opened: OpenedWindow) -> int:
        """How many files the next slice has at least."""
        rows = opened.waiting[0].rows if opened.waiting else 0
        return self._parts.tasks() if self._spreads and rows > self._parts.local_rows else 1

    def _emissions(
        self, opened: OpenedWindow, snapshot: Snapshot, runs: Sequence[Run], files: Sequence[StagedRun]
    ) -> list[Emission]:
        """What these files are emitted as, behind everything that the snapshot has emitted."""
        known = self._parts.marks
        marked = [markers.among(known) for markers in marks(snapshot, runs, files)]
        newer = {file.collection: opened.superseded.of(file.collection) for file in files}
        return [_emission(file, newer[file.collection], its) for file, its in zip(files, marked, strict=True)]

    def _write(self, emissions: Sequence[Emission], writer: PartWriter) -> list[EmissionResult]:
        if sum(emission.staged.rows for emission in emissions) <= self._parts.local_rows:
            return [emission.write(writer) for emission in emissions]
        return self._parts.executors.map(EmitTo(writer), emissions)

    def note_commit(self) -> None:
        """Note that the sink has committed a turn, to learn how long a slice takes."""
        self._slices.end(self._parts.clock())

    # Beside the turns.

    def send_beside(self, opened: OpenedWindow, state: State) -> None:
        """Give the sink more runs of a window. Raises SinkError, LeaseLost."""
        sink = self._parts.sink
        room = self._parts.tasks() - len(opened.beside)
        if not opened.goes_beside or room <= 0 or opened.next_file is None or not isinstance(sink, TakesRows):
            return
        for _ in range(room):
            if not sink.prepare_for_rows():
                return
            self._parts.lease.check()
            taking = self._next_beside(opened, state, sink)
            if taking is None:
                return
            opened.beside.start(taking)

    def _next_beside(self, opened: OpenedWindow, state: State, sink: TakesRows) -> RunInFlight | None:
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
        way.watch(self._changed)
        return RunInFlight(file, runs, end, state.position, way)

    def _record_taken(self, state: State, opened: OpenedWindow) -> tuple[State, int]:
        """Record the progress of what the sink has taken. Returns also how many READ events these are."""
        rows = 0
        for taking, emitted in opened.beside.take_finished():
            rows += emitted.rows
            there = replace(state, position=taking.position)
            there = self._records.record(there, opened, taking.runs, [(taking.staged, emitted)])
            state = replace(there, position=state.position)
            opened.sent = taking.end
        return state, rows
