"""Signal types of other packages: what they answer, what they become, and what goes wrong in them."""

from __future__ import annotations

import time
from importlib import metadata

import pytest

from engine.errors import ConfigError
from engine.model import CollectionId, ExecuteSnapshot, LogMessage, SignalRow, Target
from signals.actions import ACTIONS, SignalAction, registered_actions
from signals.answers import Answer, Outcome
from signals.desk import Desk
from tests.toys.mailbox import EVERYTHING, RING

T, U = CollectionId(("public", "t")), CollectionId(("public", "u"))


def obeyed(type_: str, data: str | None, actions=None) -> tuple[list[object], list[Answer]]:
    """The commands and the answers of one signal."""
    answers: list[Answer] = []
    known = {"ring-bell": RING, "snapshot-everything": EVERYTHING} if actions is None else actions
    desk = Desk(answers.append, monotonic=time.monotonic, actions=known)
    commands = desk.commands([SignalRow("0/1", "a", type_, data)], lambda: [T, U])
    desk.tell(1)
    return list(commands), answers


def test_an_action_answers_with_its_text():
    text = "ding ding for a by source"

    assert obeyed("ring-bell", '{"times": 2}') == (
        [LogMessage("0/1", text)],
        [Answer("0/1", "a", Outcome.ACCEPTED, text)],
    )


@pytest.mark.parametrize("data", [None, "", "  ", "{}"])
def test_an_action_needs_no_data(data):
    assert obeyed("ring-bell", data)[1][0].text == "ding for a by source"


def test_an_action_may_become_a_built_in_signal_under_the_name_of_its_own():
    commands, answers = obeyed("snapshot-everything", None)

    assert commands == [ExecuteSnapshot("0/1", (Target(T), Target(U)), "a")]
    assert [(answer.id, answer.outcome) for answer in answers] == [("a", Outcome.ACCEPTED)]


@pytest.mark.parametrize(
    ("type_", "data", "said"),
    [
        ("ring-bell", '{"times": "x"}', "'times' must be a whole number"),
        ("ring-bell", '{"times": 4}', "the action of 'ring-bell' failed (RuntimeError)"),
        ("ring-bell", "[]", "the data must be a JSON object, not an array"),
        ("ring", None, "no signal type 'ring'"),
    ],
)
def test_what_an_action_does_not_take_is_rejected(type_, data, said):
    commands, answers = obeyed(type_, data)

    assert commands == []
    assert [(answer.outcome, said in answer.text) for answer in answers] == [(Outcome.REJECTED, True)]


def test_an_action_that_returns_nothing_is_told():
    action = SignalAction(lambda _signal: None)  # type: ignore[arg-type, return-value]  # what it must not do

    assert "neither a text nor a signal" in obeyed("x", "{}", {"x": action})[1][0].text


@pytest.mark.usefixtures("toys")
def test_actions_are_found_by_their_entry_points():
    assert registered_actions() == {"ring-bell": RING, "snapshot-everything": EVERYTHING}


@pytest.mark.parametrize("name", ["log", "schema-changes", "snapshot-window-open"])
def test_no_action_takes_a_built_in_name(name, monkeypatch):
    entry = metadata.EntryPoint(name, "tests.toys.mailbox:RING", ACTIONS)
    monkeypatch.setattr(metadata, "entry_points", lambda **_named: [entry])

    with pytest.raises(ConfigError, match=f"named as the built-in signal '{name}'"):
        registered_actions()
