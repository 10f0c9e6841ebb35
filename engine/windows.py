"""The snapshot's side of a turn: the window in progress, and what becomes of its rows.

Owns the one open window and what has superseded its rows so far. Its rows go out run by run, in slices that
take a turn no longer than a moment, while the log is streamed; what supersedes those still waiting is
counted to the end. The merge rule is `merge.py`'s, which window opens next and what a failure means
`opening.py`'s; saving and sending are the job's.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.errors import SchemaChanged, SourceError, TableBusy
from engine.extent import Advance
from engine.leaving import ended, gave_up, restless
from engine.marks import NO_MARKS, Marks, marks
from engine.merge_key import key_of, merge_keys_of
from engine.opening import Opening
from engine.slices import Slices
from engine.staging import Emission

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.merge import Superseded
    from engine.model import Run, Staged, Window
    from engine.ports import OpenWindow, PartWriter
    from engine.seams import Pace, Seams
    from engine.snapshot import Snapshot, Table
    from engine.staging import Emitted
    from engine.state import State

_log = logging.getLogger("engine")


@dataclass(slots=True)
class _Opened:
    """The window in progress: what was planned, what has superseded its rows so far.

    `hidden` is what had before it opened, by changes that it does not show. Of its runs `sent` have gone
    out, the first ones; `read_s` is how long reading took.
    """

    window: Window
    reading: OpenWindow
    superseded: Superseded
    hidden: Superseded
    since_s: float
    read_s: float | None = None
    sent: int = 0

    def next_slice(self, staged: Sequence[Staged], most_bytes: float) -> tuple[int, list[Staged]]:
        """The end of the next slice, as a number of a run, and its files: at least one, and no more bytes."""
        waiting = [one for one in staged if one.run >= self.sent]
        size = 0
        taken: list[Staged] = []
        for one in waiting:
            size += one.bytes
            if taken and size > most_bytes:
                return one.run, taken
            taken.append(one)
        return len(self.window.runs), taken


class Windows:
    """Opens one window after the other and emits what survives of each."""

    def __init__(self, seams: Seams, pace: Pace) -> None:
        self._seams, self._pace = seams, pace
        self._opened: _Opened | None = None
        self._opening = Opening(seams, pace)
        self._slices = Slices(pace.slice_s, pace.slice_bytes)

    @property
    def window(self) -> Window | None:
        """The window in progress."""
        return self._opened.window if self._opened else None

    def close(self) -> None:
        """Give up the window in progress; its rows are read again."""
        if self._opened is not None:
            self._opened.reading.close()
            self._opened = None

    def drop(self, tables: Sequence[Table]) -> None:
        """Give up the window if it reads one of these entries of the queue."""
        gone = {table.ticket for table in tables}
        if self._opened and any(run.ticket in gone for run in self._opened.window.runs):
            self.close()

    # Emitting.

    def poll(self, state: State) -> tuple[State, Sequence[Staged] | None]:
        """The window's staged rows once all are read; deals with a window that failed."""
        opened = self._opened
        if opened is None:
            return state, None
        try:
            staged = opened.reading.poll()
            if staged is not None and opened.read_s is None:
                opened.read_s = self._seams.now() - opened.since_s
        except SchemaChanged as error:
            _log.warning("window %s is given up and will be read again: %s", opened.window.id, error)
            self.close()
            self._opening.gave_way()
        except TableBusy as error:
            self.close()
            state = self._opening.refused(state, error)
        except SourceError as error:
            self.close()
            state = self._opening.failed(state, opened.window, error)
        else:
            return state, staged
        return state, None

    def may_emit(self, state: State, staged: Sequence[Staged] | None) -> bool:
        """Whether the staged rows may go out at the state's position."""
        if self._opened is None or staged is None or state.position is None:
            return False
        return self._opened.reading.reached(state.position)

    def supersede(self, superseded: Superseded) -> None:
        """Count what a span has brought for the open window."""
        if self._opened is not None:
            self._opened.superseded |= superseded

    def emit(
        self, state: State, staged: Sequence[Staged] | None, writer: PartWriter, first_part: int
    ) -> tuple[State, int]:
        """Write what survives of the next slice, if the watermark is reached, as parts from `first_part` on.

        Gives the state with the progress recorded, and the READ events written.
        """
        opened = self._opened
        if opened is None or staged is None or not self.may_emit(state, staged):
            return state, 0
        if not opened.sent:
            self._opening.waited(self._seams.now() - opened.since_s - (opened.read_s or 0.0))
        end, files = opened.next_slice(staged, self._slices.most_bytes)
        runs = opened.window.runs[opened.sent : end]
        known = self._seams.marks
        marked = [one.among(known) for one in _marked(state.snapshot, runs, files)]
        collections = {one.collection for one in files}
        newer = {collection: opened.superseded.of(collection) for collection in collections}
        emissions = [
            Emission(one, newer[one.collection], part, marks)
            for part, (one, marks) in enumerate(zip(files, marked, strict=True), first_part)
        ]
        self._slices.begin(sum(one.bytes for one in files), self._seams.now())
        emitted = self._write(emissions, writer)
        state = self._record(state, opened, runs, list(zip(files, emitted, strict=True)))
        opened.sent = end
        if end == len(opened.window.runs):
            rows = sum(one.rows for one in staged)
            self._opening.went_well(opened.window, rows, opened.read_s or 0.0)
            self.close()
        return state, sum(one.rows for one in emitted)

    def committed(self) -> None:
        """A turn's events are in the sink: what a slice of a window takes is learned from it."""
        self._slices.end(self._seams.now())

    def _write(self, emissions: Sequence[Emission], writer: PartWriter) -> list[Emitted]:
        if sum(emission.staged.rows for emission in emissions) <= self._seams.local_rows:
            return [emission.write(writer) for emission in emissions]
        return self._seams.executors.map(EmitTo(writer), emissions)

    def _record(
        self, state: State, opened: _Opened, runs: Sequence[Run], results: Sequence[tuple[Staged, Emitted]]
    ) -> State:
        snapshot = state.snapshot
        for ticket in dict.fromkeys(run.ticket for run in runs):
            mine = [(read, sent) for read, sent in results if read.ticket == ticket]
            advance = _advance(opened, _runs_of(runs, ticket), mine)
            if advance.vain:
                self._opening.gave_way()
            snapshot = snapshot.advanced(advance)
            snapshot = self._restless(snapshot, ticket)
        return replace(state, snapshot=ended(snapshot, self._seams.desk))

    def _restless(self, snapshot: Snapshot, ticket: int) -> Snapshot:
        """Give up a collection whose last rows change faster than they can be read."""
        table = snapshot.find(ticket)
        if table is None or table.progress is None or table.progress.done:
            return snapshot
        if table.progress.rounds < self._pace.reread_rounds:
            return snapshot
        return gave_up(snapshot, self._seams.desk, [table], restless(table))

    # Opening.

    def consider(self, state: State, lag_s: float) -> State:
        """Open the next window if there is something to read and the stream keeps up."""
        if self._opened:
            return state
        try:
            state, window = self._opening.next(state, lag_s)
            if window is None:
                return state
            self._open(window)
        except (TableBusy, SchemaChanged) as error:
            return self._opening.refused(state, error)
        tickets = {run.ticket for run in window.runs}
        return replace(state, snapshot=state.snapshot.opened(tickets, int(self._seams.now() * 1000)))

    def _open(self, window: Window) -> None:
        since_s = self._seams.now()
        reading = self._seams.source.open_window(window)
        self._opened = _Opened(window, reading, reading.superseded, reading.superseded, since_s)


def _marked(snapshot: Snapshot, runs: Sequence[Run], staged: Sequence[Staged]) -> list[Marks]:
    """The marks of each file of rows, which are those of an initial snapshot's first and last ones."""
    found = [NO_MARKS] * len(staged)
    for table in snapshot.tables if runs[0].target.initial else ():
        files = [at for at, one in enumerate(staged) if one.ticket == table.ticket and one.rows]
        if table.place is None or table.progress is None or not files:
            continue
        after = Advance(table.ticket, _runs_of(runs, table.ticket)).applied(table.progress)
        of_table = marks(table.place, opens=not table.progress.emitted, ends=after.done)
        found[files[0]] = Marks(first=of_table.first)
        found[files[-1]] = replace(found[files[-1]], last=of_table.last)
    return found


def _runs_of(runs: Sequence[Run], ticket: int) -> tuple[Run, ...]:
    return tuple(run for run in runs if run.ticket == ticket)


def _advance(opened: _Opened, runs: tuple[Run, ...], results: Sequence[tuple[Staged, Emitted]]) -> Advance:
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
        lacking=frozenset(key_of(key) for key in unsent),
        vain=opened.hidden.of(runs[0].target.collection).names(reread),
    )


@dataclass(frozen=True, slots=True)
class EmitTo:
    """The task that writes one emission; goes to the executors."""

    writer: PartWriter

    def __call__(self, emission: Emission) -> Emitted:
        """Write it."""
        return emission.write(self.writer)
