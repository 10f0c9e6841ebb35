"""Records of the signal topic, lines of the signal file, and rows of the signal table, up to the answer."""

from __future__ import annotations

import orjson

from engine.errors import SignalError
from engine.model import Channel, CollectionId
from signals.answers import accepted, line
from signals.message import signal_of
from signals.model import Message, Signal
from signals.names import Known
from signals.parse import parse
from tests.fuzz.fuzzed import Fuzzed

_KNOWN = Known((CollectionId(("public", "orders")), CollectionId(("public", 'we"i\nrd'))))
_MESSAGES = (
    {"id": "a", "type": "execute-snapshot", "data": {"data-collections": ["public.orders"]}},
    {"type": "stop-snapshot", "data": '{"data-collections": ["public.*"], "type": "incremental"}'},
    {"id": "b\n", "type": "log", "data": {"message": "at {}"}},
)
_ROWS = (
    ["a", "execute-snapshot", '{"data-collections": ["public.orders"]}'],
    ["b", "log", '{"message": "x"}'],
)


def _message(data: bytes) -> object:
    return _answered(signal_of(Message(Channel.KAFKA, "signals-0@7", data)))


def _row(data: bytes) -> object:
    """A row of the signal table, which has texts or NULLs alone."""
    try:
        values = [None if value is None else str(value) for value in orjson.loads(data)]
        id_, type_, text = (*values, None, None, None)[:3]
    except (orjson.JSONDecodeError, TypeError):
        raise SignalError("no row") from None
    return _answered(Signal(Channel.SOURCE, "0/1", id_, type_, text))


def _answered(signal: Signal) -> object:
    """The line of the log that says what became of it, which is one line of printable characters."""
    said = line(accepted(signal, parse(signal, _KNOWN)))
    if not said.isprintable():
        raise AssertionError(said)
    return said


SIGNALS = {
    "signal-topic": Fuzzed(_message, tuple(map(orjson.dumps, _MESSAGES)), (SignalError,), json=True),
    "signal-row": Fuzzed(_row, tuple(map(orjson.dumps, _ROWS)), (SignalError,), json=True),
}
