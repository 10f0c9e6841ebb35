"""Obeys commands: what a signal changes in the queue, and who is told of it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from engine.job.snapshots.dry_runs import DryRuns
from engine.job.snapshots.queue_limits import refused
from engine.model import ExecuteSnapshot, LogMessage, PauseSnapshot, ResumeSnapshot, StopSnapshot
from engine.snapshot.changes.commands import ahead_of, execute, pause, resume, stop
from engine.snapshot.queue_entry import entry_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.job.parts import JobParts, Pace
    from engine.job.saved.state import State
    from engine.job.snapshots.windows import Windows
    from engine.model import CollectionId, Command, SignalRow
    from engine.snapshot.queue import Snapshot
    from engine.snapshot.queue_entry import Table


class Commands:
    """Obeys the commands of a turn."""

    def __init__(self, job_parts: JobParts, pace: Pace, windows: Windows) -> None:
        self._parts, self._pace, self._windows = job_parts, pace, windows
        self._dry_runs = DryRuns(job_parts, pace, windows)

    def obey(self, state: State, signals: Sequence[SignalRow]) -> State:
        """The state after the commands of a span's signals, and of what other channels brought meanwhile."""
        job_parts = self._parts
        queued = state.snapshot.tables
        tables = job_parts.source.tables()

        def known() -> Sequence[CollectionId]:
            return (*tables.captured(), *(table.target.collection for table in queued))

        self._dry_runs.begin_turn()
        position = partial(job_parts.shown, state.position)
        for command in job_parts.desk.commands(signals, known, position, tables.groups):
            state = self._apply(state, command)
        return state

    def _apply(self, state: State, command: Command) -> State:
        match command:
            case ExecuteSnapshot():
                return self._execute(state, command)
            case StopSnapshot():
                return self._stop(state, command)
            case PauseSnapshot():
                return self._pause(state, command)
            case ResumeSnapshot():
                return self._resume(state, command)
            case LogMessage():
                return state

    def _execute(self, state: State, command: ExecuteSnapshot) -> State:
        answers = self._parts.desk.answers
        if (refusal := refused(state.snapshot, command, self._pace)) is not None:
            answers.refused(command, refusal)
            return state
        verifiable = self._verifiable(state, command)
        if verifiable is None:
            return state
        command = verifiable
        if command.dry_run:
            self._dry_runs.answer(command)
            return state
        snapshot = execute(state.snapshot, command, self._windows.in_progress.tickets)
        self._parts.notices.queued(command)
        if ahead := ahead_of(snapshot, command):
            answers.queued(command.signal, command.id, len(command.targets), ahead)
        return replace(state, snapshot=snapshot)

    def _verifiable(self, state: State, command: ExecuteSnapshot) -> ExecuteSnapshot | None:
        """The command without collections that can't be verified, which are answered; None: no others."""
        kept, copies = [], self._parts.verification.copies
        for target in command.targets:
            if target.compared and (refusal := copies.refusal(state, target, self._parts)):
                self._parts.desk.answers.failed(entry_of(command, target), refusal)
            else:
                kept.append(target)
        return replace(command, targets=tuple(kept)) if kept or not command.targets else None

    def _stop(self, state: State, command: StopSnapshot) -> State:
        changed = stop(state.snapshot, command)
        self._parts.notices.stopped(changed[1], by_name=command.collections is not None)
        return self._change_queue(state, changed, self._parts.desk.answers.stopped)

    def _pause(self, state: State, command: PauseSnapshot) -> State:
        changed = pause(state.snapshot, command)
        self._parts.notices.paused(changed[1])
        return self._change_queue(state, changed, self._parts.desk.answers.paused)

    def _resume(self, state: State, command: ResumeSnapshot) -> State:
        changed = resume(state.snapshot, command)
        self._parts.notices.resumed(changed[1])
        return self._change_queue(state, changed, self._parts.desk.answers.resumed)

    def _change_queue(
        self, state: State, changed: tuple[Snapshot, tuple[Table, ...]], answer: Callable[[Table], None]
    ) -> State:
        """The state with a changed queue. Answers for the entries that changed; windows that read one end."""
        snapshot, tables = changed
        for table in tables:
            answer(table)
        self._windows.in_progress.drop(tables)
        return replace(state, snapshot=snapshot)
