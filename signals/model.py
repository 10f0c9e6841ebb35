"""A signal as it was received, before anyone has judged it.

Owns the value and the names of the rows that a signal table holds beside signals. What a signal
asks for is decided by `signals.parse`.
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

    `label` is the signal's identity: for the signal table its log position, which is unique. `id`
    is what the operator called it; it may come twice, and may be None. `data` is unparsed text.
    """

    channel: Channel
    label: str
    id: str | None
    type: str | None
    data: str | None


@dataclass(frozen=True, slots=True)
class Message:
    """A record or a line that should hold a signal as a JSON object, exactly as a channel received it.

    `label` is the identity that the signal will have: channel, place and number.
    """

    channel: Channel
    label: str
    text: bytes


def is_window_row(type_: str | None) -> bool:
    """Whether a row of the signal table marks a window and asks for nothing."""
    return type_ is not None and type_.strip() in WINDOW_TYPES
