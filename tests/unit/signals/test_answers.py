"""What a signal is answered."""

from __future__ import annotations

import logging

import pytest

from engine.errors import SignalError
from engine.model import (
    Channel,
    CollectionId,
    ExecuteSnapshot,
    LogMessage,
    PauseSnapshot,
    ResumeSnapshot,
    StopSnapshot,
    Target,
)
from signals.answers import Answer, Outcome, accepted, line, log_answer, rejected
from signals.model import Signal
from signals.parse.commands import AcceptedSignal

SIGNAL = Signal(Channel.SOURCE, "0/1A", "ad-hoc-1", "execute-snapshot", "{}")
TABLES = tuple(CollectionId(("public", f"t{number}")) for number in range(12))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (ExecuteSnapshot("0/1A", ()), "nothing to do, 'data-collections' is empty"),
        (
            ExecuteSnapshot("0/1A", (Target(TABLES[0]), Target(TABLES[1]))),
            "incremental snapshot of public.t0, public.t1",
        ),
        (StopSnapshot("0/1A", None), "every snapshot in progress will stop"),
        (StopSnapshot("0/1A", TABLES[:1]), "the snapshot of public.t0 will stop"),
        (PauseSnapshot("0/1A", None), "every snapshot in progress will pause until it is resumed"),
        (PauseSnapshot("0/1A", TABLES[:1]), "the snapshot of public.t0 will pause until it is resumed"),
        (ResumeSnapshot("0/1A", None), "every snapshot in progress will go on if it is paused"),
        (ResumeSnapshot("0/1A", TABLES[:1]), "the snapshot of public.t0 will go on if it is paused"),
        (LogMessage("0/1A", "hello"), "hello"),
    ],
)
def test_an_accepted_signal_is_told_what_will_be_done(command, expected):
    answer = accepted(SIGNAL, AcceptedSignal(command))

    assert answer == Answer("0/1A", "ad-hoc-1", Outcome.ACCEPTED, expected)


def test_many_collections_are_counted():
    command = ExecuteSnapshot("0/1A", tuple(map(Target, TABLES)))

    assert accepted(SIGNAL, AcceptedSignal(command)).text.endswith("public.t9 and 2 more")


def test_notes_follow_the_promise():
    answer = accepted(SIGNAL, AcceptedSignal(StopSnapshot("0/1A", None), ("first", "second")))

    assert answer.text == "every snapshot in progress will stop; first; second"


def test_a_refusal_says_why_and_what_to_do():
    answer = rejected(SIGNAL, SignalError("'type' is missing", hint="add it"))

    assert answer == Answer("0/1A", "ad-hoc-1", Outcome.REJECTED, "'type' is missing; add it")


@pytest.mark.parametrize(
    ("id_", "expected"),
    [
        ("ad-hoc-1", "signal 'ad-hoc-1' at 0/1A finished: done"),
        (None, "signal at 0/1A finished: done"),
    ],
)
def test_a_line_names_the_signal_by_id_and_position(id_, expected):
    assert line(Answer("0/1A", id_, Outcome.FINISHED, "done")) == expected


def test_a_line_is_one_line_whatever_it_is_told():
    text = line(Answer("0/1A", "a\nb", Outcome.ACCEPTED, "x\r\ny\x1b[31m\u2028é"))

    assert text == "signal 'a\\nb' at 0/1A accepted: x\\r\\ny\\x1b[31m\\u2028é"


@pytest.mark.parametrize(
    ("outcome", "level"),
    [
        (Outcome.ACCEPTED, logging.INFO),
        (Outcome.REJECTED, logging.WARNING),
        (Outcome.FINISHED, logging.INFO),
        (Outcome.STOPPED, logging.INFO),
        (Outcome.FAILED, logging.ERROR),
    ],
)
def test_the_log_has_one_line_per_answer(caplog, outcome, level):
    answer = Answer("0/1A", "100%s", outcome, "done 100%d")
    with caplog.at_level(logging.DEBUG, "signals"):
        log_answer(answer)

    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [(level, line(answer))]


def test_an_accepted_snapshot_says_how_many_collections_will_be_answered():
    command = ExecuteSnapshot("0/1A", tuple(Target(table) for table in TABLES))

    assert accepted(SIGNAL, AcceptedSignal(command)).facts == {"collections": 12}
