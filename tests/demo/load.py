"""How much the demo does, and how far the stream may be behind it."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Load:
    """How much there is to read and to write; `least_s`: how long writing goes on at least."""

    orders: int
    stock: int
    writes_per_s: float
    least_s: float


class Lag:
    """How far the stream is behind the writers, from places in the log that were seen at some time."""

    def __init__(self) -> None:
        self._unconfirmed: deque[tuple[float, Any]] = deque()

    def seconds(self, end: Any, confirmed: Any) -> float:
        """The age of the oldest place, of those seen here, behind what is confirmed; `end` is the newest."""
        now = time.monotonic()
        self._unconfirmed.append((now, end))
        while self._unconfirmed and self._unconfirmed[0][1] <= confirmed:
            self._unconfirmed.popleft()
        return now - self._unconfirmed[0][0] if self._unconfirmed else 0.0
