"""Turns a message's text into a signal, or into a SignalError that says what is wrong.

Owns the frame of a Kafka record or a line of the file: `{"id": …, "type": …, "data": {…}}`. `signals.parse`
defines the fields of `data`.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

import orjson

from engine.errors import SignalError
from signals.budget import MAX_DATA, check_depth
from signals.model import Signal
from signals.names import shown
from signals.parse import kind

if TYPE_CHECKING:
    from signals.model import Message

_ID: Final = "id"
_TYPE: Final = "type"
_DATA: Final = "data"
_FIELDS: Final = (_ID, _TYPE, _DATA)
_HINT: Final = 'it must read {"id": "…", "type": "…", "data": {…}}; the id may be left out'


def signal_of(message: Message) -> Signal:
    """The signal in a message. Raises SignalError, whose text is the answer."""
    fields = _object(message.text)
    for name in fields:
        if name not in _FIELDS:
            near = difflib.get_close_matches(name[:100].lower(), _FIELDS, n=1)
            meant = f" (did you mean {near[0]!r}?)" if near else ""
            raise SignalError(f"a message has no field {shown(name)}{meant}", hint=_HINT)
    return Signal(
        message.channel, message.label, _text(fields, _ID), _text(fields, _TYPE), _data(fields.get(_DATA))
    )


def _object(text: bytes) -> dict[str, object]:
    if not text.strip():
        raise SignalError("the message is empty", hint=_HINT)
    if len(text) > MAX_DATA:
        raise SignalError(f"the message has {len(text)} bytes, at most {MAX_DATA} are read")
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        raise SignalError(
            f"the message is no valid JSON: {exc.msg} at character {exc.pos + 1}", hint=_HINT
        ) from exc
    check_depth(value, "the message")
    if not isinstance(value, dict):
        raise SignalError(f"the message must be a JSON object, not {kind(value)}", hint=_HINT)
    return value


def _text(fields: dict[str, object], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise SignalError(f"{name!r} must be a string, not {kind(value)}")
    return value


def _data(value: object) -> str | None:
    """The data as text. JSON in a string, as in the signal table's column, is accepted too."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, dict):
        raise SignalError(f"{_DATA!r} must be an object, not {kind(value)}")
    return orjson.dumps(value).decode()
