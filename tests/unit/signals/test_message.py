"""The frame of a message: what becomes a signal, and what is said of the rest."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import SignalError
from engine.model import Channel
from signals.budget import MAX_DATA
from signals.message import signal_of
from signals.model import Message, Signal


def message(text: str | bytes) -> Message:
    return Message(Channel.KAFKA, "t-0@7", text.encode() if isinstance(text, str) else text)


@pytest.mark.parametrize(
    ("text", "id_", "type_", "data"),
    [
        (
            '{"type":"execute-snapshot","data": {"data-collections": ["s.t"], "type": "INCREMENTAL"}}',
            None,
            "execute-snapshot",
            '{"data-collections":["s.t"],"type":"INCREMENTAL"}',
        ),
        ('{"id": "a", "type": "log", "data": {"message": "ü"}}', "a", "log", '{"message":"ü"}'),
        ('{"id": null, "type": "stop-snapshot"}', None, "stop-snapshot", None),
        ('{"type": "log", "data": "{\\"message\\": 1}"}', None, "log", '{"message": 1}'),
        (' {"type": "log", "data": null}\r', None, "log", None),
    ],
)
def test_a_message_is_read_as_the_signal_in_it(text, id_, type_, data):
    assert Signal(Channel.KAFKA, "t-0@7", id_, type_, data) == signal_of(message(text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the message is empty"),
        (" \n", "the message is empty"),
        ('{"type": "log"', "no valid JSON"),
        ('{"type": "log"} and more', "no valid JSON"),
        ('{"type": "log"}{}', "no valid JSON"),
        (b'{"type": "\xff"}', "no valid JSON"),
        ('["log"]', "must be a JSON object, not an array"),
        ("null", "must be a JSON object, not null"),
        ('{"id": 7, "type": "log"}', "'id' must be a string, not a number"),
        ('{"type": ["log"]}', "'type' must be a string, not an array"),
        ('{"type": "log", "data": []}', "'data' must be an object, not an array"),
        ('{"type": "log", "dta": {}}', "no field 'dta' (did you mean 'data'?)"),
        ("[" * 60_000, "no valid JSON"),
        ('{"type": "log", "data": {"a": ' + "[" * 254 + "]" * 254 + "}}", "more than 32 brackets"),
        ('"' + "x" * MAX_DATA, "65537 bytes, at most 65536"),
    ],
)
def test_what_is_no_signal_is_refused_with_the_reason(text, said):
    with pytest.raises(SignalError) as caught:
        signal_of(message(text))

    assert said in str(caught.value)


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_a_signal_or_are_refused(raw):
    with contextlib.suppress(SignalError):
        assert signal_of(message(raw)).label == "t-0@7"
