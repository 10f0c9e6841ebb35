"""Positions in the change stream: resume tokens, which sort as their hexadecimal text does.

A token begins with the cluster time of its event. Several events may share a time, so a position also says
whether all events of that time have been streamed. They have when the server answers without events.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bson.binary import Binary

from adapters.mongodb.documents.bson_walk import Kind, fields, string
from engine.errors import SourceError
from engine.model import Position

if TYPE_CHECKING:
    from adapters.mongodb.documents.bson_walk import Value

_TOKEN = re.compile(r"[0-9A-Fa-f]{18,}")
"""A type byte, the cluster time in eight bytes, and what distinguishes events of the same time."""
_BITS = re.compile(r"(?:[0-9a-f]{2})*")


def checked(position: Position) -> Position:
    """The position, if it is one of a change stream. Raises TypeError or ValueError."""
    data, bits, whole = position.order
    if not isinstance(data, str) or not isinstance(bits, str):
        raise TypeError("not a resume token")
    if not _TOKEN.fullmatch(data) or not _BITS.fullmatch(bits) or whole not in {0, 1}:
        raise ValueError("not a resume token")
    return position


def position_of(raw: bytes, token: Value) -> Position:
    """The position of the resume token at `token`, inside its time. Raises SourceError if it is not valid."""
    parts = fields(raw, token.start)
    data = parts.get("_data")
    if data is None or data.kind != Kind.STRING or not _TOKEN.fullmatch(text := string(raw, data.start)):
        raise SourceError("a resume token is damaged", where="change stream", hint="read the span again")
    bits = parts.get("_typeBits")
    return Position((text, raw[bits.start + 5 : bits.end].hex() if bits else "", 0))


def marked(position: Position, *, whole: bool) -> Position:
    """The position of the same token. `whole`: all events of its time have been streamed."""
    data, bits, _whole = position.order
    return Position((data, bits, int(whole)))


def seconds_of(position: Position) -> int:
    """The cluster time of a position, in Unix seconds."""
    return int(str(position.order[0])[2:10], 16)


def event_position(change: bytes) -> Position:
    """The position of a change event by its own token, which the log holds while it reaches back to it."""
    return position_of(change, fields(change)["_id"])


def token_of(position: Position) -> dict[str, Any]:
    """The resume token in the server's form."""
    data, bits, _whole = position.order
    return {"_data": data, **({"_typeBits": Binary(bytes.fromhex(str(bits)))} if bits else {})}


def time_of(position: Position) -> tuple[int, int]:
    """The cluster time: seconds and ordinal."""
    data = str(position.order[0])
    return int(data[2:10], 16), int(data[10:18], 16)


def has_passed(position: Position, time: tuple[int, int]) -> bool:
    """Whether every event up to and including `time` has been streamed."""
    own = time_of(position)
    return own > time or (own == time and bool(position.order[2]))


def numbers(position: Position) -> dict[str, int]:
    """The position's time as numbers, by name."""
    seconds, ordinal = time_of(position)
    return {"sec": seconds, "ord": ordinal}


def shown(position: Position) -> str:
    """The cluster time in the shell's notation."""
    seconds, ordinal = time_of(position)
    return f"Timestamp({seconds}, {ordinal})"
