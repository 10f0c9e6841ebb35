"""Turns a message's text into a signal, or into a SignalError that says what is wrong.

Owns the frame of a Kafka record or a line of the file: `{"id": …, "type": …, "data": {…}}`, alone or as the
payload that Kafka Connect's JsonConverter writes beside its schema. `signals.parse.commands` defines the
fields of `data`.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

import msgspec
import orjson

from engine.errors import SignalError
from signals.model import Signal
from signals.parse.budget import MAX_MESSAGE, check_depth
from signals.parse.kinds import kind, shown

if TYPE_CHECKING:
    from signals.model import Message

_ID: Final = "id"
_TYPE: Final = "type"
_DATA: Final = "data"
_FIELDS: Final = (_ID, _TYPE, _DATA)
_ADDITIONAL: Final = frozenset({"additionalData", "channelOffset"})
"""Fields that Debezium's channels carry for custom actions. They are accepted, and nothing reads them."""
_SCHEMA: Final = "schema"
_PAYLOAD: Final = "payload"
_HINT: Final = 'it must read {"id": "…", "type": "…", "data": {…}}; the id may be left out'


def signal_of(message: Message) -> Signal:
    """The signal in a message. Raises SignalError, whose text is the answer."""
    fields, text = _unwrapped(_object(message.text), message.text)
    for name in fields:
        if name not in _FIELDS and name not in _ADDITIONAL:
            similar = difflib.get_close_matches(name[:100].lower(), _FIELDS, n=1)
            meant = f" (did you mean {similar[0]!r}?)" if similar else ""
            raise SignalError(f"a message has no field {shown(name)}{meant}", hint=_HINT)
    return Signal(
        message.channel, message.label, _text(fields, _ID), _text(fields, _TYPE), _data(fields, text)
    )


def _object(text: bytes) -> dict[str, object]:
    if not text.strip():
        raise SignalError("the message is empty", hint=_HINT)
    if len(text) > MAX_MESSAGE:
        raise SignalError(f"the message has {len(text)} bytes, at most {MAX_MESSAGE} are read")
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


def _unwrapped(fields: dict[str, object], text: bytes) -> tuple[dict[str, object], bytes]:
    """The fields of a message and their text; of one with a schema those of its payload."""
    if fields.keys() != {_SCHEMA, _PAYLOAD}:
        return fields, text
    payload = fields[_PAYLOAD]
    if not isinstance(payload, dict):
        raise SignalError(f"{_PAYLOAD!r} must be an object, not {kind(payload)}", hint=_HINT)
    return payload, bytes(_raw(text)[_PAYLOAD])


def _raw(text: bytes) -> dict[str, msgspec.Raw]:
    """The fields of an object as they were written."""
    return msgspec.json.decode(text, type=dict[str, msgspec.Raw])


def _text(fields: dict[str, object], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise SignalError(f"{name!r} must be a string, not {kind(value)}")
    return value


def _data(fields: dict[str, object], text: bytes) -> str | None:
    """The data as text, with its numbers as they were written.

    JSON in a string, as in the signal table's column, is accepted too.
    """
    value = fields.get(_DATA)
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, dict):
        raise SignalError(f"{_DATA!r} must be an object, not {kind(value)}")
    return bytes(_raw(text)[_DATA]).decode()
