"""Requests to send: signals as a command or a program makes them, before a channel carries them. Pure.

`parse` decides on receipt what they mean; nothing is checked twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import orjson

from engine.model import SignalRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class SignalType(StrEnum):
    """The types of signals that can be requested."""

    EXECUTE = "execute-snapshot"
    STOP = "stop-snapshot"
    PAUSE = "pause-snapshot"
    RESUME = "resume-snapshot"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class SignalRequest:
    """A signal to send. Its answers carry `id`, so no other signal should have it."""

    id: str
    type: SignalType
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def message(self) -> bytes:
        """The form of a Kafka record, or of a line of the file."""
        return orjson.dumps({"id": self.id, "type": self.type, "data": dict(self.data)})

    @property
    def row(self) -> SignalRow:
        """The form of a row of the signal table; the log gives it its label."""
        return SignalRow("", self.id, self.type, orjson.dumps(dict(self.data)).decode())


def snapshot_data(
    collections: Sequence[str], kind: str | None = None, condition: str | None = None, against: str = ""
) -> dict[str, Any]:
    """The data of a signal about snapshots; what is None or empty is left out."""
    said = {
        "data-collections": list(collections),
        "type": kind,
        "additional-condition": condition,
        "against": against,
    }
    return {name: value for name, value in said.items() if value}
