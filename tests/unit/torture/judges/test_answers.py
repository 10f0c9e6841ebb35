"""Signals and their answers, judged."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torture.answers import Answers, Asked
from tests.torture.oracle import Table, Violation
from tests.torture.script import Sent

T = "public.t"


def asked(kind: str = "execute") -> Answers:
    sent = Sent(0.0, "s", "", None, kind, [T] if kind in {"execute", "unreadable"} else [])
    return Answers({"s": Asked(sent, turn=3)})


def answer(outcome: str, turn: int, text: str = "") -> dict[str, Any]:
    return {"what": "answer", "id": "s", "outcome": outcome, "turn": turn, "text": text}


ACCEPTED = answer("accepted", 3)
FINISHED = answer("finished", 5, f"{T} completed: 9 rows read, 2 of them superseded by the log")
CRASH: dict[str, Any] = {"what": "crash"}


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

    assert (answers.superseded, answers.repeated, tables[T].whole) == (2, 0, True)


def paused_from(pause: int, resume: int) -> Answers:
    answers = asked()
    answers.asked["p"] = Asked(Sent(0.0, "p", "", None, "pause"), turn=pause, outcomes=["accepted"])
    answers.asked["r"] = Asked(Sent(0.0, "r", "", None, "resume"), turn=resume, outcomes=["accepted"])
    answers.hear([committed(3), ACCEPTED, told(3), committed(5), answer("paused", 5, f"{T} paused"), told(5)])
    answers.hear([committed(resume), answer("resumed", resume, f"{T} goes on"), told(resume)])
    answers.hear([committed(9), FINISHED | {"turn": 9}, told(9)])
    return answers


def paused_by_name(pause: int, resume: int | None, *, others: bool = False) -> Answers:
    """A pause of the table alone; with `others` a second signal asks for it meanwhile."""
    answers = asked()
    if others:
        answers.asked["o"] = Asked(Sent(0.0, "o", "", None, "execute", [T]), turn=3)
        answers.hear([{**ACCEPTED, "id": "o"}])
    answers.hear([committed(3), ACCEPTED, told(3)])
    answers.hear([committed(pause), answer("paused", pause, f"{T} paused after 3 rows"), told(pause)])
    if resume is not None:
        answers.hear([committed(resume), answer("resumed", resume, f"{T} goes on"), told(resume)])
    answers.hear([committed(9), FINISHED | {"turn": 9}, told(9)])
    if others:
        answers.hear([{**FINISHED, "turn": 9, "id": "o"}])
    return answers


@pytest.mark.parametrize("turn", [4, 7, 8])
def test_rows_read_before_a_pause_by_name_and_after_it_are_right(turn: int):
    paused_by_name(5, 7).settle(table(turn))


@pytest.mark.parametrize(("resume", "turn"), [(7, 5), (7, 6), (None, 8)])
def test_one_read_while_its_table_is_paused_is_a_violation(resume: int | None, turn: int):
    with pytest.raises(Violation, match=rf"public\.t was read in turn {turn}, and all that ask for it are"):
        paused_by_name(5, resume).settle(table(turn))


def test_a_signal_that_is_not_paused_may_have_its_rows_read():
    answers = paused_by_name(5, 7, others=True)
    answers._wrong.clear()  # the other signal's answers were not told in turns

    answers.settle(table(6))


def test_a_pause_told_again_after_a_crash_is_one_pause():
    answers = paused_by_name(5, 7)
    answers.hear([answer("paused", 5, f"{T} paused"), CRASH])
    found = answers.asked["s"].rests[T]

    assert found[0] == (5, 7)


@pytest.mark.parametrize("turn", [3, 4, 7, 9])
def test_rows_read_before_a_pause_and_after_it_are_right(turn: int):
    paused_from(5, 7).settle(table(turn))


@pytest.mark.parametrize("turn", [5, 6])
def test_one_read_while_everything_is_paused_is_a_violation(turn: int):
    with pytest.raises(Violation, match=rf"public\.t was read in turn {turn}, paused from 5 to 7"):
        paused_from(5, 7).settle(table(turn))


@pytest.mark.parametrize(("exchanged_in", "whole"), [(4, True), (5, False), (6, False)])
def test_a_snapshot_tells_nothing_of_rows_that_got_the_name_later(exchanged_in: int, whole: bool):  # noqa: FBT001
    answers, tables = asked(), table(4)
    tables[T].exchanged_in = exchanged_in

    answers.hear([committed(3), ACCEPTED, told(3), committed(5), FINISHED, told(5)])
    answers.settle(tables)

    assert tables[T].whole is whole


def test_what_is_accepted_may_be_refused_once_it_is_measured():
    answers = asked("unreadable")

    answers.hear(
        [committed(3), ACCEPTED, told(3), committed(5), answer("rejected", 5, f"{T} not read"), told(5)]
    )
    answers.settle(table())


def stop_of(names: list[str], outcome: str, text: str) -> Answers:
    answers = Answers({"s": Asked(Sent(0.0, "s", "stop-snapshot", None, "stop", names), 3)})
    answers.hear([committed(3), answer(outcome, 3, text), told(3)])
    return answers


def test_a_stop_of_what_is_neither_captured_nor_queued_is_refused():
    text = f"no collection matches '{T}' (did you mean 'public.other'?)"
    stop_of([T], "rejected", text).settle(table())

    for names, outcome, said in (
        ([T], "rejected", "the data is no JSON"),
        ([T, "public.other"], "rejected", text),
        ([], "rejected", text),
        ([T], "accepted", text),
    ):
        with pytest.raises(Violation, match="was answered"):
            stop_of(names, outcome, said).settle(table())


@pytest.mark.parametrize(
    ("kind", "notes", "turns"),
    [
        pytest.param("execute", [ACCEPTED], (4,), id="no-final-answer"),
        pytest.param("execute", [FINISHED], (4,), id="not-accepted"),
        pytest.param("execute", [ACCEPTED, FINISHED, FINISHED], (4,), id="twice"),
        pytest.param("execute", [ACCEPTED, FINISHED, CRASH, FINISHED, FINISHED], (4,), id="three-times"),
        pytest.param("execute", [ACCEPTED, FINISHED, CRASH, ACCEPTED], (4,), id="an-older-one-again"),
        pytest.param("execute", [ACCEPTED, CRASH], (4,), id="lost-in-a-crash"),
        pytest.param("execute", [ACCEPTED, FINISHED], (), id="row-not-read"),
        pytest.param("execute", [ACCEPTED, FINISHED], (2, 4), id="read-before-it-was-asked"),
        pytest.param("execute", [ACCEPTED, FINISHED], (4, 6), id="read-after-it-was-finished"),
        pytest.param("malformed", [ACCEPTED], (), id="nonsense-accepted"),
        pytest.param("unreadable", [ACCEPTED, FINISHED], (4,), id="read-though-it-can-not-be"),
        pytest.param("unreadable", [ACCEPTED], (), id="no-refusal"),
        pytest.param("stop", [], (), id="stop-not-answered"),
    ],
)
def test_what_is_wrong_is_a_violation(kind: str, notes: list[dict[str, Any]], turns: tuple[int, ...]):
    answers = asked(kind)
    for turn, note in enumerate(notes, 3):
        answers.hear([note] if note is CRASH else [committed(turn), note | {"turn": turn}, told(turn)])

    with pytest.raises(Violation):
        answers.settle(table(*turns))


def test_an_answer_told_before_its_turn_was_sent_is_a_violation():
    answers = asked()
    answers.hear([ACCEPTED, committed(3), told(3), committed(5), FINISHED, told(5)])

    with pytest.raises(Violation, match="before its turn was sent"):
        answers.settle(table(4))


@pytest.mark.parametrize("last", [[], [told(5)]], ids=["amid-the-telling", "after-it"])
def test_after_a_crash_those_told_last_may_be_told_once_more(last: list[dict[str, Any]]):
    answers = asked()

    answers.hear([committed(3), ACCEPTED, told(3), committed(5), FINISHED, *last, CRASH])
    answers.hear([CRASH, committed(6), {**FINISHED, "turn": 6}, told(6)])
    answers.settle(table(4))

    assert answers.repeated == 1


def test_so_may_those_that_the_job_told_last_which_had_taken_over_and_was_stopped():
    answers = asked()

    answers.hear([committed(3), ACCEPTED, told(3), {"what": "sleep"}])
    answers.hear([{"what": "lost"}, committed(5), FINISHED, told(5), {"what": "relieved"}])
    answers.hear([committed(6), {**FINISHED, "turn": 6}, told(6)])
    answers.settle(table(4))

    assert answers.repeated == 1


def of_rows(*stretches: list[int | None]) -> Answers:
    """A snapshot of rows with these ordinals, accepted in turn 3 and finished in turn 5."""
    sent = Sent(0.0, "s", "", None, "execute", [T], whole=False, ordinals=list(stretches))
    answers = Answers({"s": Asked(sent, turn=3)})
    answers.hear([committed(3), ACCEPTED, told(3), committed(5), FINISHED, told(5)])
    return answers


def numbered(*read: int) -> dict[str, Table]:
    """A table of rows 1 to 4, of which turn 4 has read these."""
    found = Table(T, ("n",), {})
    found.start([{"n": str(n)} for n in range(1, 5)])
    for n in read:
        found.read_in[str(n),] = [4]
        found.ordinals.add((4, n))
    return {T: found}


@pytest.mark.parametrize("stretches", [[[2, 4]], [[2, 3], [3, 4]], [[2, 4], [40, None], [None, -7]]])
def test_a_snapshot_of_given_rows_reads_these_and_no_others(stretches: list[list[int | None]]):
    tables = numbered(2, 3)
    of_rows(*stretches).settle(tables)

    assert not tables[T].whole


def test_a_row_asked_for_and_not_read_is_a_violation():
    with pytest.raises(Violation, match=r"finished with public\.t, but row \('3',\) was not read"):
        of_rows([2, 4]).settle(numbered(2))


def test_a_row_read_and_not_asked_for_is_a_violation():
    with pytest.raises(Violation, match=r"row 4 of public\.t was read in turn 4, and not asked for"):
        of_rows([2, 4]).settle(numbered(2, 3, 4))


WAITS = "not read: waits for transactions that were writing to it when it was first seen to be published"
LOCKED = (
    "not read: measuring failed: canceling statement due to lock timeout; another session holds it locked"
)


@pytest.mark.parametrize(
    ("text", "right"), [(WAITS, True), (LOCKED, True), ("not read: permission denied", False)]
)
def test_a_dry_run_fails_only_where_a_snapshot_would_wait(text: str, right: bool):  # noqa: FBT001
    """Once a crash has repeated the signal, its table may be planned."""
    answers = Answers({"s": Asked(Sent(0.0, "s", "", None, "plan", [T]), turn=3)})
    answers.hear([committed(3), ACCEPTED, answer("failed", 3, f"{T} {text}"), CRASH])
    answers.hear([committed(4), ACCEPTED, answer("planned", 4, f"{T} has about 9 rows"), told(4)])
    try:
        answers.settle(table())
    except Violation:
        assert not right
    else:
        assert right


def test_a_dry_run_is_answered_and_reads_nothing():
    sent = Sent(0.0, "s", "", None, "plan", [T])
    planned = answer("planned", 3, f"{T} has about 9 rows")
    heard = [committed(3), ACCEPTED, planned, told(3)]
    answers = Answers({"s": Asked(sent, turn=3)})
    answers.hear(heard)

    answers.settle({T: Table(T, ("k",), {})})
    with pytest.raises(Violation, match="which no signal asked for"):
        answers.settle(table(4))


def test_a_table_that_becomes_captured_is_asked_for_by_its_announcement():
    label = f"tidemark-new-{T}"
    announced, finished = ACCEPTED | {"id": label}, FINISHED | {"id": label}
    answers = Answers()
    answers.hear([committed(3), announced, told(3), committed(5), finished, told(5)])
    answers.settle(table(4))

    assert answers.announced == 1
    with pytest.raises(Violation, match="turn 6, which no signal asked for"):
        answers.settle(table(4, 6))


def test_stops_messages_and_pauses_that_were_resumed_are_counted():
    kinds = ("stop", "log", "pause", "pause", "resume")
    answers = Answers({f"{n}": Asked(Sent(0.0, f"{n}", "", "{}", kind)) for n, kind in enumerate(kinds)})
    answers.hear([ACCEPTED | {"id": f"{number}"} for number in range(len(kinds))])

    happened = answers.happened()
    assert (happened["stops"], happened["messages logged"], happened["pauses and resumes"]) == (1, 1, 1)
