"""Answers to signals: one value, one line of the log.

Owns the wording and the log line. The modules that parse, plan and read decide which answer is due.
Formatting is pure; only `log_answer` has an effect.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, assert_never

from engine.model import ExecuteSnapshot, LogMessage, PauseSnapshot, ResumeSnapshot, StopSnapshot
from engine.saved import read_text
from signals.model import Signal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.errors import SignalError
    from engine.model import Command
    from signals.model import Message
    from signals.parse import Accepted

_LOG: Final = logging.getLogger("signals")
_MAX_NAMED: Final = 10
_MAX_ID: Final = 100
_MAX_TEXT: Final = 4_000


class Outcome(StrEnum):
    """What became of a signal."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    PAUSED = "paused"
    RESUMED = "resumed"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"


_LEVELS: Final = {
    Outcome.ACCEPTED: logging.INFO,
    Outcome.REJECTED: logging.WARNING,
    Outcome.PAUSED: logging.INFO,
    Outcome.RESUMED: logging.INFO,
    Outcome.FINISHED: logging.INFO,
    Outcome.STOPPED: logging.INFO,
    Outcome.FAILED: logging.ERROR,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What happened to a signal. `label` is its identity, `id` the operator's name for it, if known."""

    label: str
    id: str | None
    outcome: Outcome
    text: str


def answers_in(saved: Iterable[Mapping[str, Any]]) -> list[Answer]:
    """Read saved answers: their fields by name. Raises the errors that `reading_saved` converts."""
    return [
        Answer(
            read_text(fields["label"]),
            None if fields["id"] is None else read_text(fields["id"]),
            Outcome(fields["outcome"]),
            read_text(fields["text"]),
        )
        for fields in saved
    ]


def accepted(signal: Signal, request: Accepted) -> Answer:
    """The answer that says what will be done, and what was odd about the request."""
    text = "; ".join((_promise(request.command), *request.notes))
    return Answer(signal.label, signal.id, Outcome.ACCEPTED, text)


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


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"


def line(answer: Answer) -> str:
    """The answer as one printable line. Line breaks and terminal control characters are escaped."""
    name = "" if answer.id is None else f" {answer.id!r}"
    return _printable(f"signal{name} at {answer.label} {answer.outcome}: {answer.text}")


def log_answer(answer: Answer) -> None:
    """Write the answer's line to the log, at the level of its outcome."""
    _LOG.log(_LEVELS[answer.outcome], "%s", line(answer))


def _promise(command: Command) -> str:
    match command:
        case ExecuteSnapshot(targets=()):
            return "nothing to do, 'data-collections' is empty"
        case ExecuteSnapshot(targets=targets):
            return f"incremental snapshot of {_listed([target.collection for target in targets])}"
        case StopSnapshot(collections=collections):
            return f"{_meant(collections)} will stop"
        case PauseSnapshot(collections=collections):
            return f"{_meant(collections)} will pause until it is resumed"
        case ResumeSnapshot(collections=collections):
            return f"{_meant(collections)} will go on if it is paused"
        case LogMessage(message=message):
            return message
        case _:
            assert_never(command)


def _meant(collections: Sequence[object] | None) -> str:
    return "every snapshot in progress" if collections is None else f"the snapshot of {_listed(collections)}"


def _listed(collections: Sequence[object]) -> str:
    names = ", ".join(str(collection) for collection in collections[:_MAX_NAMED])
    more = len(collections) - _MAX_NAMED
    return f"{names} and {more} more" if more > 0 else names


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
