"""Change events that the server split since they were too large, put together again (`splitEvent`).

Each part holds some of the event's fields, and a resume token of its own; the last one's is the event's.
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
"""Fields of a part itself."""


@dataclass(slots=True)
class Parts:
    """The parts of an event that have come, while others are to come; used by one thread."""

    _came: list[bytes] = field(default_factory=list)

    @property
    def open(self) -> bool:
        """Whether some parts of an event are still to come."""
        return bool(self._came)

    def joined(self, came: Sequence[bytes]) -> tuple[bytes, ...]:
        """The whole events among what came."""
        if not self._came and not any(_MARK in one for one in came):
            return tuple(came)
        return tuple(whole for one in came if (whole := self._add(one)) is not None)

    def _add(self, one: bytes) -> bytes | None:
        with reading_bytes("a change event", _PLACE):
            split = fields(one).get("splitEvent") if _MARK in one else None
        if split is None:
            return one
        with reading_bytes("a part of a large event", _PLACE):
            about = fields(one, split.start)
            number, of = (int32(one, about[name].start)[0] for name in ("fragment", "of"))
        if number != len(self._came) + 1:
            raise SourceError(
                f"part {number} of a large event came behind {len(self._came)} others", place=_PLACE
            )
        self._came.append(one)
        if number < of:
            return None
        parts, self._came = self._came, []
        with reading_bytes("the parts of a large event", _PLACE):
            return _whole(parts)


def _whole(parts: Sequence[bytes]) -> bytes:
    """The event: its token, which is that of the last part, and the fields of all parts."""
    last = parts[-1]
    token = fields(last)["_id"]
    found = [bytes([token.kind]) + b"_id\0" + last[token.start : token.end]]
    for part in parts:
        for name, kind, start, end in elements(part):
            if name not in _OF_EACH:
                found.append(bytes([kind]) + name + b"\0" + part[start:end])
    body = b"".join(found)
    return pack("<i", len(body) + 5) + body + b"\0"
