"""The desk of a job has the channels that its settings name, another package's included, and all actions."""

from __future__ import annotations

import pytest

from adapters.source.assembly.signal_desk import make_desk
from engine.config import parse
from engine.model import CollectionId, ExecuteSnapshot, Target
from signals.answers import Answer
from tests.hand_clock import HandClock
from tests.toys.mailbox import BOXES

LEAST = {
    "connector.class": "memory",
    "topic.prefix": "shop",
    "memory.database": "d",
    "tidemark.sink": "shelf",
    "shelf.name": "s",
    "signal.enabled.channels": "mailbox",
    "mailbox.name": "letters",
}
T = CollectionId(("public", "t"))


@pytest.mark.usefixtures("toys")
def test_a_channel_and_an_action_of_another_package_are_used(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(BOXES, "letters", [b'{"id": "a", "type": "snapshot-everything"}'])
    answers: list[Answer] = []
    desk = make_desk(parse(LEAST).signals, "shop", HandClock().clock, answers.append)
    desk.resume({}, 0)

    assert desk.pending()
    assert desk.commands([], lambda: [T]) == [ExecuteSnapshot("mailbox-shop@0", (Target(T),), "a")]
    saved = desk.memory()
    desk.tell(1)
    assert [(answer.label, answer.outcome) for answer in answers] == [("mailbox-shop@0", "accepted")]

    again = make_desk(parse(LEAST).signals, "shop", HandClock().clock, answers.append)
    again.resume(saved, 1)

    assert again.commands([], lambda: [T]) == []
