"""Records what a slice of a window has done: progress, certificates, verifications, and what ends with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.job.snapshots.completion import end_completed, give_up, note_steps, restless_error
from engine.ports.visibility import TellsVisibility
from engine.snapshot.extent import Advance
from engine.snapshot.merge_key import key_of, merge_keys_of
from engine.verify.certified_ranges import Frontier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.job.parts import JobParts, Pace
    from engine.job.saved.state import State
    from engine.job.snapshots.emission import EmissionResult
    from engine.job.snapshots.opened_window import OpenedWindow
    from engine.job.snapshots.window_scheduler import WindowScheduler
    from engine.model import Run, StagedRun


class SliceRecords:
    """Records slices in the state."""

    def __init__(self, job_parts: JobParts, pace: Pace, opening: WindowScheduler) -> None:
        self._parts, self._pace, self._opening = job_parts, pace, opening

    def record(
        self,
        state: State,
        opened: OpenedWindow,
        runs: Sequence[Run],
        results: Sequence[tuple[StagedRun, EmissionResult]],
    ) -> State:
        """The state once these runs are emitted; `results` are their files, each with what became of it."""
        for ticket in dict.fromkeys(run.ticket for run in runs):
            mine = [(read, sent) for read, sent in results if read.ticket == ticket]
            advance = _advance(opened, _runs_of(runs, ticket), mine)
            if advance.runs[0].target.compared:
                compared = [sent for _read, sent in mine]
                noted = self._parts.verification.courses.note(
                    state.turn, advance.runs, compared, opened.superseded.of
                )
                advance = replace(advance, noted=noted)
            elif not advance.runs[0].target.judged:
                advance = self._certified(state, opened, advance, mine)
            if advance.uncounted:
                self._opening.pauses.give_way()
            before = state.snapshot.find(ticket)
            self._parts.tally.snapshots.add_rows(before, advance)
            rounds = before.progress.rounds if before and before.progress else 0
            state = replace(state, snapshot=state.snapshot.advanced(advance))
            note_steps(before, state.snapshot.find(ticket), self._parts.listener)
            state = self._restless(state, ticket, rounds)
        return end_completed(state, self._parts)

    def _certified(
        self,
        state: State,
        opened: OpenedWindow,
        advance: Advance,
        results: Sequence[tuple[StagedRun, EmissionResult]],
    ) -> Advance:
        """The advance with what its certificate will say."""
        certificates, position = self._parts.certificates, state.position
        if certificates is None or position is None:
            return advance
        reading = opened.reading
        visible = reading.visible if isinstance(reading, TellsVisibility) else ""
        numbered = enumerate(opened.window.runs[opened.sent :], opened.sent)
        runs = {number: run for number, run in numbered if run in advance.runs}
        frontier = Frontier(self._parts.show(position), visible, state.turn)
        sent = certificates.sent_ranges(runs, results, frontier)
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
                self._opening.pauses.rest(table)
            return state
        return give_up(state, self._parts.listener, [table], restless_error(table))


def _runs_of(runs: Sequence[Run], ticket: int) -> tuple[Run, ...]:
    return tuple(run for run in runs if run.ticket == ticket)


def _advance(
    opened: OpenedWindow, runs: tuple[Run, ...], results: Sequence[tuple[StagedRun, EmissionResult]]
) -> Advance:
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
