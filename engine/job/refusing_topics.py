"""Topics that refuse events: their events are kept, and offered to them again.

Owns what is known of such topics since the last saved turn. `isolation.py` sets their collections aside,
`engine.isolation.release` decides when which events are offered again.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.errors import TopicRemade
from engine.isolation import incomplete
from engine.isolation.incomplete import Cause, Incomplete
from engine.isolation.kept_events import Bundle, bundled, size_of
from engine.isolation.release import Releases, under_epoch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from engine.errors import SinkError, TopicsRefused
    from engine.isolation.release import Piece
    from engine.job.parts import JobParts, Pace
    from engine.job.saved.state import State
    from engine.model import CollectionId, Part

_log = logging.getLogger("engine")


class RefusingTopics:
    """Notes which topics refuse events, and keeps what they don't take."""

    def __init__(self, job_parts: JobParts, pace: Pace) -> None:
        self._parts, self._pace = job_parts, pace
        self._refusals: dict[str, SinkError] = {}
        self._remade: dict[str, TopicRemade] = {}
        self._releases = Releases(job_parts.letters, pace.probe_s, pace.longest_probe_s)

    # Refusals.

    def note_refusal(self, refused: TopicsRefused) -> None:
        """Note topics that refuse events, so that the turn is repeated without their tables.

        A topic that was recreated may refuse events as well, once its events are sent again.

        Raises `refused` if refusals are to stop the job, or if a topic refuses again after it was noted.
        """
        remade = {topic: error for topic, error in refused.reasons.items() if isinstance(error, TopicRemade)}
        refusals = {topic: error for topic, error in refused.reasons.items() if topic not in remade}
        if refusals and (not self._pace.isolates or refusals.keys() & self._refusals.keys()):
            raise refused
        self._remade |= remade
        self._refusals |= refusals

    def remade(self, collection: CollectionId) -> TopicRemade | None:
        """What was said of the collection's topic if it was recreated since the last saved turn."""
        return self._remade.get(self._parts.topic(collection))

    def unsaved_faults(self, state: State) -> list[Incomplete]:
        """The collections whose topics refuse events and that are not saved as incomplete yet.

        A collection whose topic was recreated and refuses events comes twice: first with its gap.

        Raises the error of a topic that belongs to no collection. It stops the job, or is retried.
        """
        noted = [*self._remade.items(), *self._refusals.items()]
        if not noted:
            return []
        job_parts = self._parts
        since = job_parts.show(state.position) if state.position else "the beginning"
        queued = [table.target.collection for table in state.snapshot.tables]
        collections = dict.fromkeys((*job_parts.source.tables().captured(), *queued))
        found = {
            topic: [candidate for candidate in collections if job_parts.topic(candidate) == topic]
            for topic, _reason in noted
        }
        for topic, reason in noted:
            if not found[topic]:
                self._forget(topic)
                raise reason
        return [
            Incomplete(collection, _cause(reason), since, _why(reason))
            for topic, reason in noted
            for collection in found[topic]
        ]

    def _forget(self, topic: str) -> None:
        self._remade.pop(topic, None)
        self._refusals.pop(topic, None)

    def begin_pauses(self, state: State) -> None:
        """After a turn is saved, begin the pauses of topics that refused its events."""
        for fault in state.incomplete:
            if self._parts.topic(fault.collection) in self._refusals:
                self._releases.note_refusal(fault.collection, self._parts.clock())
        self._remade.clear()
        self._refusals.clear()

    # What they don't take.

    def withheld_topics(self, known: Iterable[Incomplete]) -> dict[str, CollectionId]:
        """The topics that get no events for now, each with its collection.

        A topic shared by refused collections is left out: its events can't be separated.
        """
        known = tuple(known)
        refused = [fault.collection for fault in known if fault.cause is Cause.REFUSED]
        topics = Counter(map(self._parts.topic, refused))
        aside = incomplete.aside_collections(known) & frozenset(refused)
        found = {self._parts.topic(collection): collection for collection in aside}
        return {topic: collection for topic, collection in found.items() if topics[topic] == 1}

    def withhold(self, state: State, parts: Sequence[Part], withheld: Mapping[str, CollectionId]) -> State:
        """Keep a turn's events for topics that refuse them, instead of sending them."""
        for topic, collection in withheld.items():
            state = self._keep(state, collection, self._parts.sink.withhold(parts, topic))
        return state

    def _keep(self, state: State, collection: CollectionId, batches: Iterable[pa.RecordBatch]) -> State:
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

        def counted(fault: Incomplete) -> Incomplete:
            if fault.collection != collection:
                return fault
            more = replace(
                fault, kept=fault.kept + kept, size=fault.size + size, dropped=fault.dropped + dropped
            )
            return under_epoch(more, state.turn, letters.epoch)

        return replace(state, incomplete=tuple(map(counted, state.incomplete)))

    # Offering it again.

    def next_release(self, state: State) -> Piece | None:
        """The next kept events to offer to a topic that refused them, if any are due."""
        if not state.incomplete or self._remade or self._refusals:
            return None
        withheld = set(self.withheld_topics(state.incomplete).values())
        releasable = [fault for fault in state.incomplete if fault.collection in withheld]
        return self._releases.next(releasable, self._parts.clock())

    def note_release(self, piece: Piece) -> None:
        """Note that a topic took a piece and that the state is saved."""
        if self._releases.note_sent(piece):
            _log.info("%s: its topic takes events again, %d were kept", piece.collection, piece.before.kept)
        if piece.after is not None and piece.after.streamed:
            self._parts.letters.drop(piece.collection)
            _log.warning("%s; %s", piece.after, incomplete.advice(piece.after))

    def note_refused_release(self, piece: Piece, refused: TopicsRefused) -> None:
        """Note that the topic still refuses events. Raises `refused` if another topic does."""
        topic = self._parts.topic(piece.collection)
        if refused.reasons.keys() - {topic}:
            raise refused
        reason = refused.reasons[topic]
        if isinstance(reason, TopicRemade):
            self._remade[topic] = reason
            return
        pause_s = self._releases.note_refusal(piece.collection, self._parts.clock())
        _log.info("%s is set aside still: %s; offered again in %.0f s", piece.collection, refused, pause_s)


def _cause(error: SinkError) -> Cause:
    """A recreated topic takes events, so what it lost is a gap."""
    return Cause.GAP if isinstance(error, TopicRemade) else Cause.REFUSED


def _why(error: SinkError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message
