"""What the rows of a collection are compared with, and why some can't be compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.errors import InvariantError, SignalError
from engine.verify.copy import HoldsRows, Settles

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from engine.job.parts import JobParts
    from engine.job.saved.state import State
    from engine.model import CollectionId, Target
    from engine.verify.copy import Copy


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies of a job: its `own`, without which nothing is compared, as `why` says.

    `others` are copies that somebody else keeps, by the names that targets give them, or say why nothing is
    compared with them.
    """

    own: Copy | None = None
    why: str = "this job has nothing to compare rows with"
    others: Mapping[str, Copy | str] = field(default_factory=dict)

    def of(self, target: Target) -> Copy:
        """What the rows of a target are compared with."""
        copy = self.others[target.against] if target.against else self.own
        if copy is None or isinstance(copy, str):
            raise InvariantError("rows are compared with no copy")
        return copy

    def besides(self, target: Target) -> Collection[str]:
        """Topics that must be followed while a target is compared."""
        copy: object = self.others.get(target.against)
        return copy.besides if isinstance(copy, Settles) else ()

    def follow(self, topics: Collection[str], turn: int) -> None:
        """Tell all copies what is compared, and that a turn was sent. Raises SourceError."""
        for copy in (self.own, *self.others.values()):
            if copy is not None and not isinstance(copy, str):
                copy.follow(topics, turn)

    def refusal(self, state: State, target: Target, parts: JobParts) -> SignalError | None:
        """Why a collection can't be compared, if it can't be."""
        why = self._refused(state, target, parts)
        return SignalError(f"it can't be verified: {why}", where=target.collection) if why else None

    def _refused(self, state: State, target: Target, parts: JobParts) -> str:
        collection = target.collection
        if self.own is None:
            return self.why
        if why := self._unknown(target.against) or self.own.refusal():
            return why
        if any(fault.collection == collection and not fault.streamed for fault in state.incomplete):
            return "it is set aside, as the log says"
        topic, captured = parts.topic(collection), parts.source.tables().captured()
        if [parts.topic(other) for other in captured].count(topic) > 1:
            return f"its topic {topic!r} has the events of other collections, too"
        known = {parts.topic(other): other for other in (*captured, collection)}
        return _learn(self.of(target), topic, known)

    def _unknown(self, against: str) -> str:
        """Why nothing can be compared with what has this name; empty if something can."""
        if not against:
            return ""
        if against in self.others:
            found = self.others[against]
            return found if isinstance(found, str) else ""
        if not self.others:
            return "the settings have no targets: see tidemark.verify.against"
        return f"the settings have no target {against!r}; known: {', '.join(sorted(self.others))}"


def _learn(copy: Copy, topic: str, known: Mapping[str, CollectionId]) -> str:
    """Tell a copy which collections topics are of. Returns why it can't compare this one; empty if it can."""
    if isinstance(copy, Settles):
        return copy.learn(topic, known[topic])
    return copy.learn(topic, known) if isinstance(copy, HoldsRows) else ""
