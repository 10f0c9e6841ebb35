"""What has become of signals that a program has sent to a job of its own process."""

from __future__ import annotations

from threading import Condition
from typing import TYPE_CHECKING, Final

from engine.job.running_job import SignalAnswer, SignalResult
from signals.answers import log_answer
from signals.outcome import Fate

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.job.running_job import SentSignal
    from signals.answers import Answer

_MOST_KEPT: Final = 1_000
"""How many signals' answers are kept; the oldest are forgotten."""


class SignalFates:
    """Takes the answers from the job's thread, and lets others wait for them."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._fates: dict[str, tuple[Fate, tuple[SignalAnswer, ...]]] = {}

    def answered(self, answer: Answer) -> None:
        """Log an answer, and keep it."""
        log_answer(answer)
        fields = {"outcome": answer.outcome, "collection": answer.collection, "facts": answer.facts}
        told = SignalAnswer(str(answer.outcome), answer.text, answer.collection, answer.facts)
        with self._changed:
            fate, answers = self._fates.pop(answer.label, (Fate(), ()))
            self._fates[answer.label] = fate.after(fields), (*answers, told)
            while len(self._fates) > _MOST_KEPT:
                self._fates.pop(next(iter(self._fates)))
            self._changed.notify_all()

    def answers(self, signal: SentSignal) -> tuple[SignalAnswer, ...]:
        """The answers so far."""
        return self._fates.get(signal.label, (Fate(), ()))[1]

    def result(self, signal: SentSignal) -> SignalResult | None:
        """What became of a signal; None while more will be said."""
        fate, answers = self._fates.get(signal.label, (Fate(), ()))
        return SignalResult(signal, fate.good, answers) if fate.known else None

    def wait(self, signal: SentSignal, ended: Callable[[], bool], timeout_s: float | None) -> None:
        """Wait until there is a result, or the job has ended, or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self.result(signal) is not None or ended(), timeout_s)

    def wake(self) -> None:
        """Let everybody who waits look whether the job has ended."""
        with self._changed:
            self._changed.notify_all()
