"""The state: all that a restart needs, as a value. Pure.

`engine.job.saved.state_document` turns it into the document that a port stores. When a state counts (pending,
commit, promote) is explained in `engine.job.checkpoint`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from engine.job.saved.attempt import Attempt
from engine.job.saved.recovery import Recovery  # noqa: TC001  msgspec reads it
from engine.snapshot.queue import Snapshot
from engine.verify.certificate import Chain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.isolation.incomplete import Incomplete
    from engine.model import Position


@dataclass(frozen=True, slots=True)
class State:
    """Where a job stands after turn `turn`.

    - `position` is None if the log was never read.
    - `identity` identifies the database.
    - `memory`, `channels` and `sink` are what the source, the signal channels and the sink want saved. For
      the channels that is how far each has been read.
    - `incomplete` are the collections whose copy is known to lack something.
    - `destination` identifies where events went; empty in states saved before it was recorded.
    - `beside` names the document with the waiting part of the queue and the sink's memory; empty if this
      document has everything.
    - `certificates` are those of snapshots that have ended since the turn before.
    - `recovery` is the newest loss of the log, None if there was none.
    - `attempt` is a turn that may have been sent and reached further than `position`, None if there is none.
    """

    turn: int = 0
    position: Position | None = None
    snapshot: Snapshot = field(default_factory=Snapshot)
    identity: dict[str, str] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    channels: dict[str, Any] = field(default_factory=dict)
    incomplete: tuple[Incomplete, ...] = ()
    destination: dict[str, str] = field(default_factory=dict)
    sink: Mapping[str, str] = field(default_factory=dict)
    beside: str = ""
    certificates: Chain = field(default_factory=Chain)
    recovery: Recovery | None = None
    attempt: Attempt | None = None

    def next_turn(self) -> State:
        """This state under the next turn's number."""
        return replace(self, turn=self.turn + 1)

    def after_attempt(self, attempted: State) -> State:
        """This state, if the turn of another one may have been sent, and is sent again.

        It may have been sent to a newer timeline of the server, where this position holds as well.
        """
        if self.position is None or attempted.position is None:
            return self
        attempt = attempted.attempt
        if attempt is None or attempt.position < attempted.position:
            attempt = Attempt(attempted.position, attempted.memory)
        if attempt.position <= self.position:
            return self
        return replace(self, identity=attempted.identity, attempt=attempt)

    def past_attempt(self) -> State:
        """This state, without an attempt that it has come past."""
        if self.attempt is None or self.position is None or self.position < self.attempt.position:
            return self
        return replace(self, attempt=None)

    @property
    def perhaps_sent(self) -> tuple[State, ...]:
        """The states up to which events may have been sent: this one, and the attempt's."""
        if self.attempt is None:
            return (self,)
        return self, replace(self, position=self.attempt.position, memory=self.attempt.memory)

    def at(self, position: Position | None, attempted: Position | None = None) -> State:
        """This state at another position, with its attempt, if there is one, at `attempted`."""
        if self.attempt is None or attempted is None:
            return replace(self, position=position)
        return replace(self, position=position, attempt=replace(self.attempt, position=attempted))

    def with_queue(self, snapshot: Snapshot) -> State:
        """This state with another queue; itself if it is the same one."""
        return self if snapshot is self.snapshot else replace(self, snapshot=snapshot)

    @property
    def awaits_log(self) -> bool:
        """Whether a new log is to begin in place of a lost one."""
        return self.recovery is not None and not self.recovery.begun
