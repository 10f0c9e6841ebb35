"""What has become of a program's signals."""

from __future__ import annotations

import threading

import pytest

from adapters.embedding.signal_fates import SignalFates
from engine.errors import SignalError
from engine.job.running_job import SentSignal
from signals.answers import Answer, Outcome

SIGNAL = SentSignal("in-process@1", "execute-snapshot", ("public.a",))


def answer(outcome: Outcome, collection: str | None = None, **facts: int) -> Answer:
    return Answer(SIGNAL.label, "embedded", outcome, f"it is {outcome}", collection, facts)


def test_a_signal_is_done_when_all_its_collections_are():
    fates = SignalFates()
    fates.answered(answer(Outcome.ACCEPTED, collections=2))
    fates.answered(answer(Outcome.FINISHED, "public.a"))
    assert fates.result(SIGNAL) is None
    fates.answered(answer(Outcome.FINISHED, "public.b", rows=3))

    result = fates.result(SIGNAL)
    assert result is not None
    assert result.check() is result
    assert [told.outcome for told in result.answers] == ["accepted", "finished", "finished"]
    assert result.answers[-1].facts == {"rows": 3}


def test_a_failure_says_what_was_not_done():
    fates = SignalFates()
    fates.answered(answer(Outcome.ACCEPTED, collections=1))
    fates.answered(answer(Outcome.FAILED, "public.a"))

    result = fates.result(SIGNAL)
    assert result is not None
    with pytest.raises(SignalError, match="'execute-snapshot' was not done: failed: it is failed"):
        result.check()


def test_who_waits_is_woken_by_the_answer_and_by_the_jobs_end():
    fates, ended = SignalFates(), threading.Event()
    woken: list[bool] = []

    def wait() -> None:
        fates.wait(SIGNAL, ended.is_set, 60)
        woken.append(fates.result(SIGNAL) is not None)

    first = threading.Thread(target=wait)
    first.start()
    fates.answered(answer(Outcome.REJECTED))
    first.join(60)
    assert woken == [True]

    other = SentSignal("in-process@2", "log")
    second = threading.Thread(target=lambda: fates.wait(other, ended.is_set, 60))
    second.start()
    ended.set()
    fates.wake()
    second.join(60)
    assert not second.is_alive()


def test_the_oldest_signals_are_forgotten():
    fates = SignalFates()
    for number in range(1, 1_003):
        fates.answered(Answer(f"in-process@{number}", None, Outcome.REJECTED, "no"))

    assert fates.result(SIGNAL) is None
    assert fates.result(SentSignal("in-process@1002", "log")) is not None
