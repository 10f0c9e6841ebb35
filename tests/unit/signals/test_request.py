"""Requests are received as they were meant, as a message and as a row."""

from __future__ import annotations

import orjson

from engine.expressions import bounded_matcher
from engine.model import Channel, CollectionId, ExecuteSnapshot
from signals.model import Message, Signal
from signals.parse.commands import parse
from signals.parse.message import signal_of
from signals.parse.names import KnownNames
from signals.request import SignalRequest, SignalType, snapshot_data

ORDERS = CollectionId(("public", "orders"))
REQUEST = SignalRequest("mine", SignalType.EXECUTE, snapshot_data(["public.orders"], "blocking", "id > 5"))


def test_a_message_is_parsed_as_it_was_meant():
    signal = signal_of(Message(Channel.FILE, "f@0", REQUEST.message))

    command = parse(signal, KnownNames([ORDERS], bounded_matcher)).command

    assert signal.id == "mine"
    assert isinstance(command, ExecuteSnapshot)
    assert command.blocking
    assert [(target.collection, target.condition) for target in command.targets] == [(ORDERS, "id > 5")]


def test_a_row_says_the_same():
    row = REQUEST.row

    command = parse(
        Signal(Channel.SOURCE, "0/1", row.id, row.type, row.data), KnownNames([ORDERS], bounded_matcher)
    ).command

    assert isinstance(command, ExecuteSnapshot)
    assert command.targets[0].condition == "id > 5"


def test_what_was_not_said_is_left_out():
    assert orjson.loads(SignalRequest("x", SignalType.PAUSE, snapshot_data([])).row.data or "") == {}
