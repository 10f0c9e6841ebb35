"""Signals as received, before they are examined.

Also defines the types of the signal table's rows that are not signals. `signals.parse.commands` decides what
a signal asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from engine.model import Channel

WINDOW_TYPES: Final = frozenset({"snapshot-window-open", "snapshot-window-close"})
"""Types of the watermark rows that an engine writes into the signal table around a window."""


@dataclass(frozen=True, slots=True)
class Signal:
    """A request, exactly as received.

    `label` is the signal's identity: in the signal table its log position, which is unique. `id` is the
    operator's name for it; it may be None and need not be unique. `data` is unparsed text. `position` is the
    stream's, as text, when the signal was taken from another channel; None: the label is a position.
    """

    channel: Channel
    label: str
    id: str | None
    type: str | None
    data: str | None
    position: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A record or a line, exactly as received, that should hold a signal as a JSON object.

    `label` will be the signal's identity: its position in the channel.
    """

    channel: Channel
    label: str
    text: bytes


def is_window_row(type_: str | None) -> bool:
    """Whether a row of the signal table is a window's watermark and not a signal."""
    return type_ is not None and type_.strip() in WINDOW_TYPES
