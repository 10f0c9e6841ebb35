"""Every error that Tidemark raises. The class decides the reaction, and only `engine.job` reacts.

    TidemarkError
    ├─ ConfigError       bad settings: exit 2 before any connection
    ├─ SignalError       a bad signal: refuse, answer, continue
    ├─ SourceError       the database or its log failed: back off, retry
    │  ├─ PositionLost   the log no longer reaches back: stop, or begin a new one and repair the copy
    │  ├─ SchemaChanged  a table changed, or can't be read as planned: measure again, then give it up
    │  │  └─ GaveWay     a window gave way to a session that waited for its tables: read less at once
    │  ├─ SnapshotGone   the database no longer keeps the state that a window reads: read less at once
    │  ├─ ExecutorsFailed   what executors did or kept is lost: repeat, but stop if nothing gets further
    │  ├─ LoginRefused   a credential has expired: retry with the one that is current then
    │  └─ TableBusy      another session holds a lock on a table: wait, and read others meanwhile
    ├─ SinkError         events were not accepted, or there was no room: back off, retry, never skip
    │  ├─ TopicRemade    a topic was recreated and lacks earlier events: its table is incomplete, continue
    │  └─ SinkRefused    the sink will never accept the events: stop
    │     └─ TopicsRefused   only these topics refuse: set their tables aside
    ├─ StateError        the saved state is unreadable or belongs to another database: stop
    │  ├─ OtherServer    it belongs to another server: stop, or begin a new log as if this one were lost
    │  └─ StateNotSaved  there was no room for the state: back off, retry
    ├─ LeaseHeld         another job holds the checkpoint or the sink, and we shall not wait: exit 3
    ├─ LeaseLost         another job has taken the checkpoint or the sink: touch nothing more, stand by
    └─ InvariantError    our own bug: never caught

A message is lower case without a full stop and quotes values with `!r`. `hint` says in one line what to do;
`where` names a collection, a position or a file. Nothing reacts to these texts: a reaction needs a field.
Errors that are raised in a task reach the driver with their class and their fields.
"""

from __future__ import annotations

from enum import StrEnum
from json import JSONDecodeError
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.model import CollectionId

Error = TypeVar("Error", bound="TidemarkError")


class TidemarkError(Exception):
    """An error, where it happened, and a one-line hint for the operator.

    `collection` is the collection where it happened, or None if it happened elsewhere.
    """

    def __init__(self, message: str, *, where: CollectionId | str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.collection = None if isinstance(where, str) else where
        self.where = str(where)
        self.hint = hint

    def recast(self, kind: type[Error], hint: str | None = None) -> Error:
        """The same error as another class, for another reaction; `hint` replaces its own."""
        return kind(
            self.message,
            where=self.where if self.collection is None else self.collection,
            hint=self.hint if hint is None else hint,
        )

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}; {self.hint}" if self.hint else text


class ConfigError(TidemarkError):
    """The settings can't be used. `problems` holds all faults found, one line each."""

    def __init__(self, *problems: str, hint: str = "") -> None:
        super().__init__("\n".join(problems), hint=hint)
        self.problems = problems


class SignalError(TidemarkError):
    """A signal that is malformed, unknown or matches nothing; the message is its answer."""


class UnknownCollection(SignalError):
    """A signal names a collection that does not exist."""


class NoUsableKey(SignalError):
    """A signal names a collection that has no key to read it by."""


class SourceError(TidemarkError):
    """The database or its log failed. A retry may help."""


class Loss(StrEnum):
    """How a log was lost."""

    SLOT_MISSING = "slot missing"
    SLOT_INVALIDATED = "slot invalidated"
    SLOT_ADVANCED = "slot advanced"
    """The slot begins past the saved position: somebody else has moved it, or made it anew."""
    LOG_REMOVED = "log removed"
    """What kept the log is there, but the log does not reach back far enough."""
    PROMOTED = "promoted"
    """A standby took over that has no slot, or lacks a part of what was sent."""
    RESTORED = "restored"
    """The server has another history than the one that was sent."""
    REPLACED = "replaced"
    """It is another system."""
    CHECKPOINT_LOST = "checkpoint lost"
    """The checkpoint is empty, and the sink holds turns."""
    CHECKPOINT_OLD = "checkpoint old"
    """The sink holds turns that the checkpoint does not know."""


class PositionLost(SourceError):
    """The log does not reach back to the saved position. Continuing would skip changes.

    `loss` says how it was lost. If it is None, no new log would help.
    """

    loss: Loss | None = None

    def __init__(
        self, message: str, *, where: CollectionId | str = "", hint: str = "", loss: Loss | None = None
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        if loss is not None:
            self.loss = loss


class LogRemoved(PositionLost):
    """The server no longer keeps the log after the saved position."""

    loss = Loss.LOG_REMOVED


class OtherHistory(PositionLost):
    """The server's log is not the one that was streamed."""

    loss = Loss.RESTORED


class SchemaChanged(SourceError):
    """A collection changed shape, or can't be read as planned. `where` names it if known."""


class GaveWay(SchemaChanged):
    """A window was given up because another session waited to change one of its tables."""


class SnapshotGone(SourceError):
    """The database no longer keeps the state that a window reads. A smaller window may be fast enough."""


class ExecutorsFailed(SourceError):
    """What executors did or kept is lost, for a reason of their own. Once, a retry helps."""


class TableBusy(SourceError):
    """Another session holds a lock that reading a collection needs. `where` names the collection."""


class LoginRefused(SourceError):
    """The database refuses the current credential. A retry helps once it is renewed."""


class SinkError(TidemarkError):
    """The sink did not accept events. A retry may help."""


class SinkRefused(SinkError):
    """The sink will never accept a turn's events as they are. No retry helps."""


class TopicRemade(SinkError):
    """A topic was recreated, or could not take some events, and lacks them. It accepts events.

    `snapshot`: a snapshot of its table is to be taken. `what`: what was recreated, if not the topic itself.
    `why`: what has happened to it otherwise.
    """

    def __init__(self, topic: str, *, snapshot: bool = False, what: str = "the topic", why: str = "") -> None:
        hint = "" if snapshot else "take a snapshot of its table"
        why = why or "was recreated, it lacks what was sent before"
        super().__init__(f"{what} {why}", where=topic, hint=hint)
        self.topic, self.snapshot = topic, snapshot


class TopicsRefused(SinkRefused):
    """The sink accepted a turn's events except those of some topics; `reasons` says why, by topic.

    A reason that is not a SinkRefused may be temporary.
    """

    def __init__(self, reasons: Mapping[str, SinkError]) -> None:
        super().__init__("; ".join(map(str, reasons.values())))
        self.reasons = dict(reasons)

    def __reduce__(self) -> tuple[type[TopicsRefused], tuple[dict[str, SinkError]]]:
        return TopicsRefused, (self.reasons,)


class StateError(TidemarkError):
    """The saved state can't be read, or it belongs to another database or destination."""


class OtherServer(StateError):
    """The saved state belongs to another server, whose log this one does not have."""


class StateNotSaved(StateError):
    """There is no room to save the state. A retry helps once there is."""


class LeaseHeld(TidemarkError):
    """Another job holds the checkpoint or the sink."""


class LeaseLost(TidemarkError):
    """Another job has taken over the checkpoint or the sink. This one must not write any more."""


class InvariantError(TidemarkError):
    """A bug in Tidemark. Never caught."""


def without_values(error: Exception) -> str:
    """Describe an error of reading a document without quoting its values.

    Errors about missing names and about syntax are shown in full. Others may quote values, so only their
    class is named.
    """
    shown = isinstance(error, (LookupError, JSONDecodeError))
    return f"{type(error).__name__}: {error}" if shown else type(error).__name__


def unforeseen(what: str, error: Exception) -> InvariantError:
    """An InvariantError for an unexpected error in `what`.

    It names only the error's class, because the message may hold values. The traceback is kept as the cause.
    """
    failure = InvariantError(f"{what} failed with {type(error).__name__}")
    failure.__cause__ = error
    return failure
