"""The JSON that stands in an event for a large value that the log left out, whatever the column's type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.events.settings import BinaryMode
from engine.events.values import binary
from engine.events.values.json_text import quote

if TYPE_CHECKING:
    from engine.events.settings import EventSettings


def placeholders(settings: EventSettings) -> tuple[bytes, ...]:
    """Every text that may stand there. Types without a placeholder show NULL."""
    text = quote(settings.unavailable_text)
    data = quote(binary.encode_bytes(settings.unavailable_value, BinaryMode.BYTES))
    letters = ",".join(map(str, np.frombuffer(settings.unavailable_value, np.int8)))
    return tuple(shown.encode() for shown in (text, data, f"[{text}]", f"[{letters}]", f"{{{text}:{text}}}"))
