"""Isolates one bad table: it is set aside or read from scratch, and all others continue.

Owns the reactions, the dead letters and the log messages. Which collections are incomplete is a value of
`engine.isolation.incomplete`, kept in the state. `refusing_topics.py` knows the topics that refuse events.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.errors import PositionLost, SignalError, SourceError
from engine.isolation import incomplete
from engine.isolation.incomplete import Cause, Incomplete
from engine.isolation.release import under_epoch
from engine.job.recovery import repairing, repairs_of
from engine.job.refusing_topics import RefusingTopics
from engine.model import ExecuteSnapshot, Target
from engine.snapshot.changes.commands import execute
from engine.snapshot.changes.failures import forget_failures
from engine.snapshot.changes.restarts import restart_collection, restart_replaced

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.isolation.incomplete import Letters
    from engine.job.parts import JobParts, Pace
    from engine.job.saved.state import State
    from engine.job.snapshots.windows import Windows
    from engine.model import Arrival, CollectionId
    from engine.ports.source import EncodingResult
    from engine.snapshot.queue import Snapshot

_log = logging.getLogger("engine")
_IN_PART = "the table is set aside: only a snapshot of all its rows can take it up"
_MOVED = "events went elsewhere while its topic refused them"


class Isolation:
    """Keeps one table's faults from the others."""

    def __init__(self, job_parts: JobParts, pace: Pace, windows: Windows) -> None:
        self._parts, self._pace, self._windows = job_parts, pace, windows
        self.topics = RefusingTopics(job_parts, pace)

    def after_move(self, state: State) -> State:
        """The state after a change of destination. Events kept for the old one become a gap."""
        found = tuple(
            Incomplete(fault.collection, Cause.GAP, fault.since, _MOVED)
            if fault.cause is Cause.REFUSED
            else fault
            for fault in state.incomplete
        )
        return replace(state, incomplete=found)

    def resume(self, state: State) -> State:
        """Log what is incomplete, and remove the letters of turns that were not saved."""
        for fault in state.incomplete:
            _log.warning("%s; %s", fault, incomplete.advice(fault))
        letters = self._parts.letters
        letters.settle(state.turn, [fault.collection for fault in state.incomplete])
        marked = tuple(under_epoch(fault, state.turn + 1, letters.epoch) for fault in state.incomplete)
        return state if marked == state.incomplete else replace(state, incomplete=marked)

    def hidden_collections(self, known: Sequence[Incomplete]) -> frozenset[CollectionId]:
        """The collections whose entries become dead letters.

        Collections whose topics refuse events are not among them: they are encoded, and their events kept.
        """
        return incomplete.aside_collections(known) - frozenset(self.topics.withheld_topics(known).values())

    def note(self, state: State, encoded: EncodingResult) -> State:
        """Add what a span has found to the state, and keep its letters.

        Raises PositionLost if a table's fault is to stop the job.
        """
        new = [fault for fault in encoded.incomplete if not _known(state, fault)]
        for fault in new:
            isolates = self._pace.isolates or fault.cause is Cause.DELETIONS
            if not isolates and self.topics.remade(fault.collection) is None:
                raise PositionLost(fault.why, where=fault.collection, hint="see tidemark.table.errors")
            _log.error("%s; %s", fault, incomplete.advice(fault))
        if encoded.incomplete:
            state = replace(state, incomplete=incomplete.with_faults(state.incomplete, encoded.incomplete))
        for fault in encoded.incomplete:
            if fault.collection not in encoded.replaced:
                state = self._interrupt(state, fault)
        lost = [fault for fault in encoded.incomplete if self._heals(fault, encoded)]
        state = repairing(state, lost, self._parts) if lost else state
        return self._keep_letters(self._restart_replaced(state, encoded.replaced), encoded.letters)

    def _heals(self, fault: Incomplete, encoded: EncodingResult) -> bool:
        """Whether a repair is queued for this.

        None is for changes that were left out on purpose, and kept as letters: the next one would undo it. Of
        a topic made anew its own setting says what becomes.
        """
        if not self._pace.recovers or fault.cause is not Cause.GAP or fault.collection in encoded.letters:
            return False
        return self.topics.remade(fault.collection) is None

    def returned(self, state: State, appeared: Sequence[Arrival]) -> tuple[State, list[Arrival]]:
        """Repair collections that are captured again after a gap. Returns the others, too."""
        gaps = {fault.collection: fault for fault in state.incomplete if fault.cause is Cause.GAP}
        back = [gaps[new.collection] for new in appeared if new.collection in gaps and not new.columns]
        if not (self._pace.recovers and back):
            return state, list(appeared)
        state = repairing(state, back, self._parts)
        repaired = repairs_of(state.snapshot)
        return state, [new for new in appeared if new.columns or new.collection not in repaired]

    def _restart_replaced(self, state: State, collections: Mapping[CollectionId, tuple[int, ...]]) -> State:
        """Restart collections whose rows were replaced outside the log while they were read."""
        snapshot, anew = restart_replaced(state.snapshot, collections)
        for table in anew:
            _log.warning("%s is read again: other rows replaced its own", table.target.collection)
        self._windows.in_progress.drop(anew)
        return state.with_queue(snapshot)

    def _interrupt(self, state: State, fault: Incomplete) -> State:
        """End the snapshots of a collection with a fault, or restart them if the fault is a gap.

        Unreported deletions change nothing: a snapshot can't report them, and the rows it reads are right.
        """
        if fault.cause is Cause.DELETIONS:
            return state
        tables = [table for table in state.snapshot.tables if table.target.collection == fault.collection]
        self._windows.in_progress.drop(tables)
        snapshot = forget_failures(state.snapshot, [fault.collection])
        if fault.cause is Cause.REFUSED and any(table.target.whole for table in tables):
            state = replace(state, incomplete=incomplete.with_gap(state.incomplete, fault.collection))
        if fault.cause is Cause.GAP:
            snapshot = self._with_snapshot(restart_collection(snapshot, fault.collection), fault.collection)
            return replace(state, snapshot=snapshot)
        for table in tables:
            self._parts.listener.failed(table, SourceError(fault.why, where=fault.collection))
        return replace(state, snapshot=snapshot.without(tables))

    def _with_snapshot(self, snapshot: Snapshot, collection: CollectionId) -> Snapshot:
        """Queue a snapshot of a collection whose topic was recreated, if one is wanted."""
        remade = self.topics.remade(collection)
        target = Target(collection)
        if remade is None or not remade.snapshot:
            return snapshot
        if any(table.target == target for table in snapshot.tables):
            return snapshot
        command = ExecuteSnapshot(f"topic {remade.topic} made anew", (target,))
        self._parts.notices.queued(command)
        return execute(snapshot, command)

    def _keep_letters(self, state: State, letters: Mapping[CollectionId, Letters]) -> State:
        if not letters:
            return state
        room = self._pace.letters_bytes - sum(fault.size for fault in state.incomplete)
        kept = []
        for collection, entries in letters.items():
            if entries.size <= room:
                self._parts.letters.keep(state.turn, collection, entries.lines())
                kept.append(collection)
                room -= entries.size
        return replace(state, incomplete=incomplete.with_counts(state.incomplete, letters, kept))

    def settle(self, state: State) -> State:
        """Mark the collections that the queue reads whole as taken up, and set all others aside.

        A partial snapshot of a table that is set aside is refused: no log would keep its rows up to date.
        """
        if not state.incomplete:
            return state
        settled = incomplete.with_taken_up(state.incomplete, state.snapshot.tables, state.turn)
        aside = incomplete.aside_collections(settled)
        in_vain = [table for table in state.snapshot.tables if table.target.collection in aside]
        self._windows.in_progress.drop(in_vain)
        for table in in_vain:
            self._parts.listener.failed(table, SignalError(_IN_PART, where=table.target.collection))
        back = aside - incomplete.aside_collections(state.incomplete)
        return replace(
            state, incomplete=settled, snapshot=forget_failures(state.snapshot.without(in_vain), back)
        )

    def note_saved(self, before: State, after: State) -> None:
        """After a turn is saved, drop the letters of collections that are complete again."""
        self.topics.begin_pauses(after)
        left = {fault.collection for fault in after.incomplete}
        for fault in before.incomplete:
            if fault.collection not in left:
                _log.info("%s is complete again", fault.collection)
                self._parts.letters.drop(fault.collection)


def _known(state: State, new: Incomplete) -> bool:
    return any(
        (fault.collection, fault.cause, fault.taken_up) == (new.collection, new.cause, 0)
        for fault in state.incomplete
    )
