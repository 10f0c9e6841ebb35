"""Answers to signals: one value, one line of the log.

Owns the wording and the log line. The modules that parse, plan and read decide which answer is due.
Formatting is pure; only `log_answer` has an effect.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping  # noqa: TC003  a dataclass's field
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, assert_never

from engine.model import ExecuteSnapshot, LogMessage, PauseSnapshot, Purpose, ResumeSnapshot, StopSnapshot
from engine.printable import first_named, printable
from engine.saved import read_text
from signals.model import Signal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.errors import SignalError
    from engine.model import Command, Scope, Target
    from engine.snapshot.pace.estimate import Estimate
    from signals.model import Message
    from signals.parse.commands import AcceptedSignal

_LOG: Final = logging.getLogger("signals")
_MAX_ID: Final = 100
_MAX_TEXT: Final = 4_000


class Outcome(StrEnum):
    """What became of a signal, or of one of its collections."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    QUEUED = "queued"
    STARTED = "started"
    PROGRESS = "progress"
    PAUSED = "paused"
    RESUMED = "resumed"
    PLANNED = "planned"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"


STEPS: Final = frozenset({Outcome.QUEUED, Outcome.STARTED, Outcome.PROGRESS})
"""Answers on the way, for the journal alone: the log has lines of its own on progress."""
_LEVELS: Final = {
    Outcome.ACCEPTED: logging.INFO,
    Outcome.REJECTED: logging.WARNING,
    Outcome.PAUSED: logging.INFO,
    Outcome.RESUMED: logging.INFO,
    Outcome.PLANNED: logging.INFO,
    Outcome.FINISHED: logging.INFO,
    Outcome.STOPPED: logging.INFO,
    Outcome.FAILED: logging.ERROR,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What happened to a signal. `label` is its identity, `id` the operator's name for it, if known.

    `collection` is the one that the answer is about, None for the whole signal. `facts` are numbers and lists
    for programs: rows read, superseded and emitted, the missing ranges.
    """

    label: str
    id: str | None
    outcome: Outcome
    text: str
    collection: str | None = field(default=None, compare=False)
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False)


def answers_in(saved: Iterable[Mapping[str, Any]]) -> list[Answer]:
    """Read saved answers: their fields by name. Raises the errors that `reading_saved` converts."""
    return [
        Answer(
            read_text(fields["label"]),
            None if fields["id"] is None else read_text(fields["id"]),
            Outcome(fields["outcome"]),
            read_text(fields["text"]),
            None if fields.get("collection") is None else read_text(fields["collection"]),
            dict(fields.get("facts") or {}),
        )
        for fields in saved
    ]


def accepted(signal: Signal, request: AcceptedSignal) -> Answer:
    """The answer that says what will be done, and what was odd about the request."""
    text = "; ".join((_promise(request.command), *request.notes))
    command = request.command
    facts = {"collections": len(command.targets)} if isinstance(command, ExecuteSnapshot) else {}
    return Answer(signal.label, signal.id, Outcome.ACCEPTED, text, facts=facts)


def rejected(signal: Signal | Message, error: SignalError) -> Answer:
    """The answer that says why nothing will be done. An unreadable signal has no id."""
    id_ = signal.id if isinstance(signal, Signal) else None
    id_ = id_ if id_ is None or len(id_) <= _MAX_ID else id_[:_MAX_ID] + "…"
    return Answer(signal.label, id_, Outcome.REJECTED, _cut(str(error)))


def rejected_together(signals: Sequence[Signal | Message]) -> Answer:
    """One answer for all signals that were not examined because there were too many."""
    last = signals[-1].label
    text = f"{len(signals)} signals, the last at {last}, are more than are taken at once; send fewer"
    return Answer(signals[0].label, None, Outcome.REJECTED, text)


def planned(target: Target, estimate: Estimate) -> str:
    """What a snapshot of a collection would read, in words."""
    speed = f"{estimate.speed.rows_per_s:.0f} rows/s"
    how = ", a speed assumed until a window is read" if estimate.speed.assumed else ""
    less = "; its condition may leave fewer" if target.condition else ""
    return (
        f"{target.collection} would be read in {estimate.chunks} chunks: about {estimate.rows} rows,"
        f" {estimate.bytes} bytes, {estimate.seconds:.1f} s at {speed}{how}{less}"
    )


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"


def line(answer: Answer) -> str:
    """The answer as one printable line. Line breaks and terminal control characters are escaped."""
    name = "" if answer.id is None else f" {answer.id!r}"
    return printable(f"signal{name} at {answer.label} {answer.outcome}: {answer.text}")


def log_answer(answer: Answer) -> None:
    """Write the answer's line to the log, at the level of its outcome."""
    _LOG.log(_LEVELS[answer.outcome], "%s", line(answer))


def _promise(command: Command) -> str:
    match command:
        case ExecuteSnapshot(targets=()):
            return "nothing to do, 'data-collections' is empty"
        case ExecuteSnapshot(targets=targets):
            named = first_named([target.collection for target in targets])
            return f"{_kind(command)} of {named}{_scoped(targets[0].scope)}"
        case StopSnapshot(collections=collections):
            what = "blocking snapshot" if command.blocking else "snapshot"
            return f"{_meant(collections, what)} will stop"
        case PauseSnapshot(collections=collections):
            return f"{_meant(collections)} will pause until it is resumed"
        case ResumeSnapshot(collections=collections):
            return f"{_meant(collections)} will go on if it is paused"
        case LogMessage(message=message):
            return message
        case _:
            assert_never(command)


def _kind(command: ExecuteSnapshot) -> str:
    if command.dry_run:
        return "dry run of a snapshot"
    if (purpose := command.targets[0].purpose) is not Purpose.SNAPSHOT:
        return "verification" if purpose is Purpose.VERIFY else "repair"
    return f"{'blocking' if command.blocking else 'incremental'} snapshot"


def _scoped(scope: Scope | None) -> str:
    if scope is None:
        return ""
    return f" by {len(scope.keys)} keys" if scope.keys else f" in {len(scope.stretches)} ranges"


def _meant(collections: Sequence[object] | None, what: str = "snapshot") -> str:
    return f"every {what} in progress" if collections is None else f"the {what} of {first_named(collections)}"
