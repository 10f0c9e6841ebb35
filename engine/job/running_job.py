"""A running job, for the program that has started it: what can be asked of it, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

from engine.errors import SignalError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.job.reports.tally import JobPhase
    from engine.job.saved.overview import CollectionOverview


@dataclass(frozen=True, slots=True)
class SentSignal:
    """A signal that was sent. Its answers carry `label`, in the log and in the journal, too."""

    label: str
    type: str
    collections: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SignalAnswer:
    """An answer to a signal: `collection` is the one that it concerns, None for the whole signal.

    `outcome` is a word such as `accepted` or `finished`. `facts` are numbers and lists for programs: rows
    read, superseded and emitted, the missing ranges.
    """

    outcome: str
    text: str
    collection: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SignalResult:
    """What became of a signal. `good`: all was done that it asked for."""

    signal: SentSignal
    good: bool
    answers: tuple[SignalAnswer, ...]

    def check(self) -> Self:
        """The result itself. Raises SignalError with what was refused, stopped or failed."""
        if self.good:
            return self
        bad = [answer for answer in self.answers if answer.outcome in {"rejected", "stopped", "failed"}]
        told = "; ".join(f"{answer.outcome}: {answer.text}" for answer in bad)
        raise SignalError(f"the signal {self.signal.type!r} was not done: {told}")


@dataclass(frozen=True, slots=True)
class JobStatus:
    """How a job does now. `snapshots` are the collections that are read, wait, or could not be read.

    `position` is None before the first turn, `kept_bytes` is how much log the server keeps for the job, where
    that is known. `events` were sent since the job was started. `failure` is the class of the error after
    which it tries again, and empty otherwise. `incomplete` says in words which copies lack something.
    """

    job: str
    standing: JobPhase
    turn: int = 0
    position: str | None = None
    lag_s: float = 0.0
    events: int = 0
    kept_bytes: int | None = None
    failure: str = ""
    snapshots: tuple[CollectionOverview, ...] = ()
    incomplete: tuple[str, ...] = ()


class RunningJob(Protocol):
    """A job that runs in a thread of this process until it is stopped. Any thread may call its methods.

    As a context manager it is stopped at the end of the block.
    """

    @property
    def running(self) -> bool:
        """Whether it has not ended."""

    @property
    def page(self) -> str | None:
        """The address of its page, if it has one; see `tidemark.http.port`."""

    def signal(
        self,
        kind: str,
        collections: Sequence[str] = (),
        *,
        data: Mapping[str, Any] | None = None,
        within_s: float = 120.0,
    ) -> SentSignal:
        """Send it a signal, such as `execute-snapshot`. `data` are further fields of the signal.

        Waits until the job takes signals, for `within_s` seconds at most. Raises TimeoutError, or
        SignalError if the job has ended.
        """

    def wait(self, signal: SentSignal, timeout_s: float | None = None, *, show: bool = False) -> SignalResult:
        """Wait until nothing more will be said about a signal; `show` draws a bar for each collection.

        Raises TimeoutError, and the job's error if it ends before.
        """

    def status(self) -> JobStatus:
        """How it does now."""

    def stop(self, timeout_s: float = 120.0) -> None:
        """End it and wait for its end. Raises the error that has ended it before, and TimeoutError."""

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until it ends by itself. Raises the error that has ended it, and TimeoutError."""

    def __enter__(self) -> Self:
        """The job itself."""

    def __exit__(self, *raised: object) -> None:
        """Stop it."""
