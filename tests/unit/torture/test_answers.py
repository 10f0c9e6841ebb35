"""Signals and their answers, judged."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torture.answers import Answers, Asked
from tests.torture.oracle import Table, Violation
from tests.torture.script import Sent

T = "public.t"


def asked(kind: str = "execute") -> Answers:
    sent = Sent(0.0, "s", "", None, kind, [T] if kind == "execute" else [])
    return Answers({"s": Asked(sent, turn=3)})


def answer(outcome: str, turn: int, text: str = "") -> dict[str, Any]:
    return {"what": "answer", "id": "s", "outcome": outcome, "turn": turn, "text": text}


ACCEPTED = answer("accepted", 3)
FINISHED = answer("finished", 5, f"{T} completed: 9 rows read, 2 of them superseded by the log")
CRASH: dict[str, Any] = {"what": "crash"}
TOLD: dict[str, Any] = {"what": "told", "turn": 5}


def committed(turn: int) -> dict[str, Any]:
    return {"what": "committed", "turn": turn}


def told(turn: int) -> dict[str, Any]:
    return {"what": "told", "turn": turn}


def table(*turns: int) -> dict[str, Table]:
    found = Table(T, ("k",), {}, read_in={("1",): list(turns)})
    found.start([{"k": "1"}])
    return {T: found}


def test_a_snapshot_answered_and_read_in_between_is_right():
    answers, tables = asked(), table(4)

    answers.hear([committed(3), ACCEPTED, told(3), committed(5), FINISHED, told(5)])
    answers.settle(tables)

    assert (answers.superseded, answers.lost, answers.repeated, tables[T].whole) == (2, 0, 0, True)


@pytest.mark.parametrize(
    ("kind", "notes", "turns"),
    [
        pytest.param("execute", [ACCEPTED], (4,), id="no-final-answer"),
        pytest.param("execute", [FINISHED], (4,), id="not-accepted"),
        pytest.param("execute", [ACCEPTED, FINISHED, FINISHED], (4,), id="twice"),
        pytest.param("execute", [ACCEPTED, FINISHED, TOLD, CRASH, FINISHED], (4,), id="repeated-though-told"),
        pytest.param("execute", [ACCEPTED, ACCEPTED, CRASH], (4,), id="told-before-it-was-sent"),
        pytest.param("execute", [ACCEPTED, CRASH], (4,), id="lost-though-nothing-was-due"),
        pytest.param("execute", [ACCEPTED, FINISHED], (), id="row-not-read"),
        pytest.param("execute", [ACCEPTED, FINISHED], (2, 4), id="read-before-it-was-asked"),
        pytest.param("execute", [ACCEPTED, FINISHED], (4, 6), id="read-after-it-was-finished"),
        pytest.param("malformed", [ACCEPTED], (), id="nonsense-accepted"),
        pytest.param("stop", [], (), id="stop-not-answered"),
    ],
)
def test_what_is_wrong_is_a_violation(kind: str, notes: list[dict[str, Any]], turns: tuple[int, ...]):
    answers = asked(kind)
    answers.hear([committed(3), *([told(3)] if CRASH in notes else []), *notes[:1], told(3), *notes[1:]])

    with pytest.raises(Violation):
        answers.settle(table(*turns))


def test_a_crash_before_the_telling_may_lose_an_answer():
    answers = asked()

    answers.hear([ACCEPTED, told(3), committed(5), CRASH])
    answers.settle(table(4))

    assert answers.lost == 1


def test_a_crash_amid_the_telling_may_repeat_one():
    answers = asked()

    answers.hear([ACCEPTED, told(3), committed(5), FINISHED, CRASH, FINISHED])
    answers.settle(table(4))

    assert answers.repeated == 1
