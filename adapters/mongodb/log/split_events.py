"""Reassembles change events that the server split because of their size (`splitEvent`).

Each part has some of the event's fields and its own resume token. The last part's token is the event's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import pack
from typing import TYPE_CHECKING

from adapters.mongodb.documents.bson_walk import elements, fields, int32
from engine.errors import SourceError
from engine.events.damaged import reading_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

_PLACE = "change stream"
_MARK = b"\x03splitEvent\x00"
_OF_EACH = frozenset((b"_id", b"splitEvent"))
"""Fields that belong to a part, not to the event."""


@dataclass(slots=True)
class Parts:
    """The parts of an unfinished event. Used by one thread."""

    _came: list[bytes] = field(default_factory=list)

    @property
    def open(self) -> bool:
        """Whether further parts of an event are expected."""
        return bool(self._came)

    def joined(self, came: Sequence[bytes]) -> tuple[bytes, ...]:
        """The complete events after these arrive."""
        if not self._came and not any(_MARK in raw for raw in came):
            return tuple(came)
        return tuple(whole for raw in came if (whole := self._add(raw)) is not None)

    def _add(self, raw: bytes) -> bytes | None:
        with reading_bytes("a change event", _PLACE):
            split = fields(raw).get("splitEvent") if _MARK in raw else None
        if split is None:
            return raw
        with reading_bytes("a part of a large event", _PLACE):
            about = fields(raw, split.start)
            number, of = (int32(raw, about[name].start)[0] for name in ("fragment", "of"))
        if number != len(self._came) + 1:
            raise SourceError(
                f"part {number} of a large event came after {len(self._came)} others", where=_PLACE
            )
        self._came.append(raw)
        if number < of:
            return None
        parts, self._came = self._came, []
        with reading_bytes("the parts of a large event", _PLACE):
            return _whole(parts)


def _whole(parts: Sequence[bytes]) -> bytes:
    """The event: the last part's token, and the fields of all parts."""
    last = parts[-1]
    token = fields(last)["_id"]
    found = [bytes([token.kind]) + b"_id\0" + last[token.start : token.end]]
    for part in parts:
        for name, kind, start, end in elements(part):
            if name not in _OF_EACH:
                found.append(bytes([kind]) + name + b"\0" + part[start:end])
    body = b"".join(found)
    return pack("<i", len(body) + 5) + body + b"\0"
