"""Isolates one bad table: it is set aside or read from scratch, and all others continue.

Owns the reactions, the dead letters and the log messages. Which collections are incomplete is a value of
`engine.isolation.incomplete`, kept in the state.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.errors import PositionLost, SignalError, SourceError, TopicRemade
from engine.isolation import incomplete
from engine.isolation.incomplete import Cause, Incomplete
from engine.isolation.kept_events import Bundle, bundled, size_of
from engine.isolation.release import Releases, under_epoch
from engine.model import ExecuteSnapshot, Target
from engine.snapshot.changes.commands import execute
from engine.snapshot.changes.failures import forget_failures
from engine.snapshot.changes.restarts import restart_collection, restart_replaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from engine.errors import SinkError, TopicsRefused
    from engine.isolation.incomplete import Letters
    from engine.isolation.release import Piece
    from engine.job.parts import JobParts, Pace
    from engine.job.saved.state import State
    from engine.job.snapshots.windows import Windows
    from engine.model import CollectionId, Part
    from engine.ports.source import Encoded
    from engine.snapshot.queue import Snapshot

_log = logging.getLogger("engine")
_IN_PART = "the table is set aside: only a snapshot of all its rows can take it up"
_GONE = "no snapshot tells of rows that are gone: remove them from the copy"
_ADVICE = "other tables go on; a completed snapshot of this one makes its copy whole"
_COMES_BACK = (
    "other tables go on; what is kept goes out once the topic takes events again,"
    " and a completed snapshot makes its copy whole, too"
)
_MOVED = "events went elsewhere while its topic refused them"


class Isolation:
    """Keeps one table's faults from the others."""

    def __init__(self, job_parts: JobParts, pace: Pace, windows: Windows) -> None:
        self._parts, self._pace, self._windows = job_parts, pace, windows
        self._refused: dict[str, SinkError] = {}
        self._releases = Releases(job_parts.letters, pace.probe_s, pace.longest_probe_s)

    def moved(self, state: State) -> State:
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
            _log.warning("%s; %s", fault, _advice(fault))
        letters = self._parts.letters
        letters.settle(state.turn, [fault.collection for fault in state.incomplete])
        marked = tuple(under_epoch(fault, state.turn + 1, letters.epoch) for fault in state.incomplete)
        return state if marked == state.incomplete else replace(state, incomplete=marked)

    def refused(self, refused: TopicsRefused) -> None:
        """Note topics that refuse events, so that the turn is repeated without their tables.

        Raises `refused` if refusals are to stop the job, or if a topic refuses again after it was noted.
        """
        stops = not self._pace.isolates and not all(map(_remade, refused.reasons.values()))
        if stops or refused.reasons.keys() & self._refused.keys():
            raise refused
        self._refused |= refused.reasons

    def found(self, state: State) -> list[Incomplete]:
        """The collections whose topics refuse events and that are not saved as incomplete yet.

        Raises the error of a topic that belongs to no collection. It stops the job, or is retried.
        """
        if not self._refused:
            return []
        job_parts = self._parts
        since = job_parts.show(state.position) if state.position else "the beginning"
        queued = [table.target.collection for table in state.snapshot.tables]
        collections = dict.fromkeys((*job_parts.source.tables().captured(), *queued))
        found = {
            topic: [candidate for candidate in collections if job_parts.topic(candidate) == topic]
            for topic in self._refused
        }
        for topic, theirs in found.items():
            if not theirs:
                raise self._refused.pop(topic)
        return [
            Incomplete(collection, _cause(self._refused[topic]), since, _why(self._refused[topic]))
            for topic, theirs in found.items()
            for collection in theirs
        ]

    def hidden(self, known: Sequence[Incomplete]) -> frozenset[CollectionId]:
        """The collections whose entries become dead letters.

        Collections whose topics refuse events are not among them: they are encoded, and their events kept.
        """
        return incomplete.aside(known) - frozenset(self._withheld(known).values())

    def withheld(self, state: State) -> dict[str, CollectionId]:
        """The topics that get no events for now, each with its collection."""
        return self._withheld(state.incomplete)

    def _withheld(self, known: Iterable[Incomplete]) -> dict[str, CollectionId]:
        """As `withheld`. A topic shared by refused collections is left out: its events can't be separated."""
        refused = [fault.collection for fault in known if fault.cause is Cause.REFUSED]
        topics = Counter(map(self._parts.topic, refused))
        aside = incomplete.aside(known) & frozenset(refused)
        found = {self._parts.topic(collection): collection for collection in aside}
        return {topic: collection for topic, collection in found.items() if topics[topic] == 1}

    def withhold(self, state: State, parts: Sequence[Part], withheld: Mapping[str, CollectionId]) -> State:
        """Keep a turn's events for topics that refuse them, instead of sending them."""
        for topic, collection in withheld.items():
            state = self._kept_events(state, collection, self._parts.sink.withhold(parts, topic))
        return state

    def _kept_events(
        self, state: State, collection: CollectionId, batches: Iterable[pa.RecordBatch]
    ) -> State:
        letters = self._parts.letters
        room = self._pace.letters_bytes - sum(known.size for known in state.incomplete)
        kept = size = dropped = 0
        for number, lines in enumerate(bundled(batches)):
            if size + size_of(lines) > room:
                dropped += len(lines)
                continue
            letters.keep_bundle(Bundle(state.turn, number, letters.epoch, collection), lines)
            kept, size = kept + len(lines), size + size_of(lines)
        if not kept + dropped:
            return state

        def added(one: Incomplete) -> Incomplete:
            if one.collection != collection:
                return one
            more = replace(one, kept=one.kept + kept, size=one.size + size, dropped=one.dropped + dropped)
            return under_epoch(more, state.turn, letters.epoch)

        return replace(state, incomplete=tuple(map(added, state.incomplete)))

    def next_release(self, state: State) -> Piece | None:
        """The next kept events to offer to a topic that refused them, if any are due."""
        if not state.incomplete or self._refused:
            return None
        mine = set(self._withheld(state.incomplete).values())
        releasable = [fault for fault in state.incomplete if fault.collection in mine]
        return self._releases.next(releasable, self._parts.clock())

    def released(self, piece: Piece) -> None:
        """Note that a topic took a piece and that the state is saved."""
        if self._releases.taken(piece):
            _log.info("%s: its topic takes events again, %d were kept", piece.collection, piece.before.kept)
        if piece.after is not None and piece.after.streamed:
            self._parts.letters.drop(piece.collection)
            _log.warning("%s; %s", piece.after, _advice(piece.after))

    def not_released(self, piece: Piece, refused: TopicsRefused) -> None:
        """Note that the topic still refuses events. Raises `refused` if another topic does."""
        topic = self._parts.topic(piece.collection)
        if refused.reasons.keys() - {topic}:
            raise refused
        if _remade(refused.reasons[topic]):
            self._refused |= refused.reasons
            return
        pause_s = self._releases.refused(piece.collection, self._parts.clock())
        _log.info("%s is set aside still: %s; offered again in %.0f s", piece.collection, refused, pause_s)

    def note(self, state: State, encoded: Encoded) -> State:
        """Add what a span has found to the state, and keep its letters.

        Raises PositionLost if a table's fault is to stop the job.
        """
        new = [fault for fault in encoded.incomplete if not _known(state, fault)]
        for fault in new:
            isolates = self._pace.isolates or fault.cause is Cause.DELETIONS
            if not isolates and not self._is_remade(fault.collection):
                raise PositionLost(fault.why, place=fault.collection, hint="see tidemark.table.errors")
            _log.error("%s; %s", fault, _advice(fault))
        state = replace(state, incomplete=incomplete.noted(state.incomplete, encoded.incomplete))
        for fault in encoded.incomplete:
            if fault.collection not in encoded.replaced:
                state = self._interrupted(state, fault)
        return self._kept(self._begun_anew(state, encoded.replaced), encoded.letters)

    def _begun_anew(self, state: State, collections: Mapping[CollectionId, tuple[int, ...]]) -> State:
        """Restart collections whose rows were replaced outside the log while they were read."""
        snapshot, anew = restart_replaced(state.snapshot, collections)
        for table in anew:
            _log.warning("%s is read anew: other rows took the place of its own", table.target.collection)
        self._windows.in_progress.drop(anew)
        return replace(state, snapshot=snapshot)

    def _interrupted(self, state: State, one: Incomplete) -> State:
        """End the snapshots of a collection with a fault, or restart them if the fault is a gap.

        Unreported deletions change nothing: a snapshot can't report them, and the rows it reads are right.
        """
        if one.cause is Cause.DELETIONS:
            return state
        tables = [table for table in state.snapshot.tables if table.target.collection == one.collection]
        self._windows.in_progress.drop(tables)
        snapshot = forget_failures(state.snapshot, [one.collection])
        if one.cause is Cause.REFUSED and any(table.target.whole for table in tables):
            state = replace(state, incomplete=incomplete.with_gap(state.incomplete, one.collection))
        if one.cause is Cause.GAP:
            snapshot = self._with_snapshot(restart_collection(snapshot, one.collection), one.collection)
            return replace(state, snapshot=snapshot)
        for table in tables:
            self._parts.listener.failed(table, SourceError(one.why, place=one.collection))
        return replace(state, snapshot=snapshot.without(tables))

    def _is_remade(self, collection: CollectionId) -> bool:
        return isinstance(self._refused.get(self._parts.topic(collection)), TopicRemade)

    def _with_snapshot(self, snapshot: Snapshot, collection: CollectionId) -> Snapshot:
        """Queue a snapshot of a collection whose topic was recreated, if one is wanted."""
        reason = self._refused.get(self._parts.topic(collection))
        target = Target(collection)
        if not isinstance(reason, TopicRemade) or not reason.snapshot:
            return snapshot
        if any(table.target == target for table in snapshot.tables):
            return snapshot
        command = ExecuteSnapshot(f"topic {reason.topic} made anew", (target,))
        self._parts.notices.queued(command)
        return execute(snapshot, command)

    def _kept(self, state: State, letters: Mapping[CollectionId, Letters]) -> State:
        room = self._pace.letters_bytes - sum(fault.size for fault in state.incomplete)
        kept = []
        for collection, entries in letters.items():
            if entries.size <= room:
                self._parts.letters.keep(state.turn, collection, entries.lines())
                kept.append(collection)
                room -= entries.size
        return replace(state, incomplete=incomplete.counted(state.incomplete, letters, kept))

    def settle(self, state: State) -> State:
        """Mark the collections that the queue reads whole as taken up, and set all others aside.

        A partial snapshot of a table that is set aside is refused: no log would keep its rows up to date.
        """
        if not state.incomplete:
            return state
        settled = incomplete.taken_up(state.incomplete, state.snapshot.tables, state.turn)
        aside = incomplete.aside(settled)
        in_vain = [table for table in state.snapshot.tables if table.target.collection in aside]
        self._windows.in_progress.drop(in_vain)
        for table in in_vain:
            self._parts.listener.failed(table, SignalError(_IN_PART, place=table.target.collection))
        back = aside - incomplete.aside(state.incomplete)
        return replace(
            state, incomplete=settled, snapshot=forget_failures(state.snapshot.without(in_vain), back)
        )

    def saved(self, before: State, after: State) -> None:
        """After a turn is saved, drop the letters of collections that are complete again."""
        for fault in after.incomplete:
            reason = self._refused.get(self._parts.topic(fault.collection))
            if reason is not None and not _remade(reason):
                self._releases.refused(fault.collection, self._parts.clock())
        self._refused.clear()
        left = {fault.collection for fault in after.incomplete}
        for fault in before.incomplete:
            if fault.collection not in left:
                _log.info("%s is complete again", fault.collection)
                self._parts.letters.drop(fault.collection)


def _advice(one: Incomplete) -> str:
    if one.cause is Cause.REFUSED:
        return _COMES_BACK
    return _GONE if one.cause is Cause.DELETIONS else _ADVICE


def _remade(error: SinkError) -> bool:
    return isinstance(error, TopicRemade)


def _cause(error: SinkError) -> Cause:
    """A recreated topic takes events, so what it lost is a gap."""
    return Cause.GAP if _remade(error) else Cause.REFUSED


def _why(error: SinkError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message


def _known(state: State, new: Incomplete) -> bool:
    return any(
        (fault.collection, fault.cause, fault.taken_up) == (new.collection, new.cause, 0)
        for fault in state.incomplete
    )
