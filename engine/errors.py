"""Every error Tidemark raises. The class decides the reaction, and only `engine.job.loop` reacts.

    TidemarkError
    ├─ ConfigError       bad settings: exit 2 before any connection
    ├─ SignalError       an operator's message: refuse, answer, go on
    ├─ SourceError       the database or its log failed: back off, retry
    │  ├─ PositionLost   the log no longer reaches back: stop
    │  ├─ SchemaChanged  a table moved, or can't be read as planned: look again, then give it up
    │  │  └─ GaveWay     a window let somebody through to its tables: read less at once
    │  ├─ SnapshotGone   the state that a window reads is kept no longer: read less at once
    │  ├─ LoginRefused   a credential has expired: try again with the one that is there then
    │  └─ TableBusy      somebody holds a lock on a table: wait, and read others meanwhile
    ├─ SinkError         events were not accepted, or had no place: back off, try again, never skip
    │  ├─ TopicRemade    a topic no longer has what was sent to it: its table is incomplete, go on
    │  └─ SinkRefused    the sink will never take them: stop
    │     └─ TopicsRefused   it takes the others: set aside the tables of these topics
    ├─ StateError        the saved state is unreadable or another database's: stop
    │  └─ StateNotSaved  there was no room for the state: back off, try again
    ├─ LeaseHeld         another job holds the checkpoint or the sink, and waiting is not wanted: exit 3
    ├─ LeaseLost         another job has taken the checkpoint or the sink: touch nothing more, stand by
    └─ InvariantError    our own bug: never caught

A message is lower case without a full stop and quotes values with `!r`. `hint` says in one line
what to do; `place` says where (a collection, a position, a file).
"""

from __future__ import annotations

from json import JSONDecodeError
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class TidemarkError(Exception):
    """An error with the place it concerns and a one-line hint for whoever must act."""

    def __init__(self, message: str, *, place: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        return f"{text}; {self.hint}" if self.hint else text


class ConfigError(TidemarkError):
    """The settings can't be used. `problems` holds every fault found, one line each."""

    def __init__(self, *problems: str, hint: str = "") -> None:
        super().__init__("\n".join(problems), hint=hint)
        self.problems = problems


class SignalError(TidemarkError):
    """A signal that is malformed, unknown or matches nothing; the message is its answer."""


class SourceError(TidemarkError):
    """The database or its log failed; trying again may help."""


class PositionLost(SourceError):
    """The log does not reach back to the saved position; going on would skip changes."""


class SchemaChanged(SourceError):
    """A collection changed shape, or can't be read as planned; `place` names it where that is known."""


class GaveWay(SchemaChanged):
    """A window was given up for another session, which waited to change one of its tables."""


class SnapshotGone(SourceError):
    """The database no longer keeps the state that a window reads; a smaller window may be in time."""


class TableBusy(SourceError):
    """Another session holds a lock that reading a collection needs; `place` names it."""


class LoginRefused(SourceError):
    """The database lets nobody in with the credential at hand; once that is renewed, the same goes well."""


class SinkError(TidemarkError):
    """The sink did not accept events; trying again may help."""


class SinkRefused(SinkError):
    """The sink will never accept a turn's events as they are; no retry mends that."""


class TopicRemade(SinkError):
    """A topic was made anew, and lacks what was sent before. It takes events.

    `snapshot`: a snapshot of its table is to be taken.
    """

    def __init__(self, topic: str, *, snapshot: bool = False) -> None:
        hint = "" if snapshot else "take a snapshot of its table"
        super().__init__("the topic was made anew, it lacks what was sent before", place=topic, hint=hint)
        self.snapshot = snapshot


class TopicsRefused(SinkRefused):
    """The sink has taken a turn's events but those of some topics; `reasons` says why, by topic.

    A reason that is no SinkRefused may pass with time.
    """

    def __init__(self, reasons: Mapping[str, SinkError]) -> None:
        super().__init__("; ".join(map(str, reasons.values())))
        self.reasons = dict(reasons)

    def __reduce__(self) -> tuple[type[TopicsRefused], tuple[dict[str, SinkError]]]:
        return TopicsRefused, (self.reasons,)


class StateError(TidemarkError):
    """The saved state can't be read, or belongs to another database."""


class StateNotSaved(StateError):
    """There is no room to save the state; trying again helps once there is."""


class LeaseHeld(TidemarkError):
    """Another job holds the checkpoint or the sink."""


class LeaseLost(TidemarkError):
    """Another job has taken the checkpoint or the sink over; this one may write nothing more."""


class InvariantError(TidemarkError):
    """Tidemark contradicts itself; nobody catches this."""


def without_values(error: Exception) -> str:
    """What is wrong with a document that can't be read: what is lacking, or where its syntax ends.

    Other errors quote the values that they failed on, and are named by their class.
    """
    shown = isinstance(error, (LookupError, JSONDecodeError))
    return f"{type(error).__name__}: {error}" if shown else type(error).__name__


def unforeseen(what: str, error: Exception) -> InvariantError:
    """`what` failed with an error that nobody foresaw: named by its class, for its words may hold values.

    Its frames stay with it as the cause.
    """
    failure = InvariantError(f"{what} failed with {type(error).__name__}")
    failure.__cause__ = error
    return failure
