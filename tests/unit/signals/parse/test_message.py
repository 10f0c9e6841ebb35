"""The frame of a message: what becomes a signal, and what is said of the rest."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import SignalError
from engine.model import Channel
from signals.model import Message, Signal
from signals.parse.budget import MAX_MESSAGE
from signals.parse.message import signal_of


def message(text: str | bytes) -> Message:
    return Message(Channel.KAFKA, "t-0@7", text.encode() if isinstance(text, str) else text)


@pytest.mark.parametrize(
    ("text", "id_", "type_", "data"),
    [
        (
            '{"type":"execute-snapshot","data": {"data-collections": ["s.t"], "type": "INCREMENTAL"}}',
            None,
            "execute-snapshot",
            '{"data-collections": ["s.t"], "type": "INCREMENTAL"}',
        ),
        ('{"id": "a", "type": "log", "data": {"message": "ü"}}', "a", "log", '{"message": "ü"}'),
        ('{"id": null, "type": "stop-snapshot"}', None, "stop-snapshot", None),
        ('{"type": "log", "data": "{\\"message\\": 1}"}', None, "log", '{"message": 1}'),
        (' {"type": "log", "data": null}\r', None, "log", None),
        # As Debezium's file and JMX channels have it.
        ('{"id": "a", "type": "log", "additionalData": {"x": 1}, "channelOffset": 7}', "a", "log", None),
        # As Kafka Connect's JsonConverter writes a struct of three strings, and a map.
        (
            '{"schema": {}, "payload": {"id": "a", "type": "log", "data": "{\\"message\\": 1.0}"}}',
            "a",
            "log",
            '{"message": 1.0}',
        ),
        (
            '{"schema":null,"payload":{"type":"log","data":{"message" : 1.0}}}',
            None,
            "log",
            '{"message" : 1.0}',
        ),
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
        ('{"schema": {}, "payload": "x"}', "'payload' must be an object, not a string"),
        ('{"schema": {}, "payload": null}', "'payload' must be an object, not null"),
        ('{"schema": {}, "payload": {"type": "log", "dta": {}}}', "no field 'dta' (did you mean 'data'?)"),
        ('{"schema": {}, "type": "log"}', "no field 'schema'"),
        ("[" * 60_000, "no valid JSON"),
        ('{"type": "log", "data": {"a": ' + "[" * 254 + "]" * 254 + "}}", "more than 32 brackets"),
        ('"' + "x" * MAX_MESSAGE, f"{MAX_MESSAGE + 1} bytes, at most {MAX_MESSAGE}"),
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


def test_numbers_of_the_data_stay_as_they_were_written():
    text = b'{"type": "execute-snapshot", "data": {"keys": [[123456789012345678901234567890], [1.10]]}}'

    assert signal_of(Message(Channel.FILE, "f@0", text)).data == (
        '{"keys": [[123456789012345678901234567890], [1.10]]}'
    )
