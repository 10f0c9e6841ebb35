"""How many bytes a producer may have in flight, and since when nothing was acknowledged. Pure.

A link or a quota may be slow by orders of magnitude. So a producer gets about two seconds' worth of data, at
the rate of the brokers' acknowledgements. A request is then never larger than the brokers can take in time,
and little has to be sent again when they fail. The window grows by what is acknowledged, because a quota lets
the first bytes pass at full speed. It shrinks as soon as the rate does.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

_AHEAD_S: Final = 2.0
_FIRST: Final = 1 << 20
_LEAST: Final = 64 << 10
_MOST: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class _Mark:
    """A number of records and bytes, counted from the producer's first."""

    records: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Flow:
    """What one producer has in flight. Times are seconds of one monotonic clock.

    `window`: the bytes that may be in flight. `rate`: bytes acknowledged per second, recently; 0 before any
    were. `acknowledged`: records acknowledged since the start.
    """

    window: int = _FIRST
    rate: float = 0.0
    acknowledged: int = 0
    _sent: _Mark = field(default_factory=_Mark)
    _done: _Mark = field(default_factory=_Mark)
    """The end of the last slice that is completely acknowledged."""
    _slices: deque[_Mark] = field(default_factory=deque)
    """The ends of the slices in flight."""
    _history: deque[tuple[float, int]] = field(default_factory=deque)
    """How many bytes were acknowledged when, for about the last two seconds."""
    _limited: bool = False

    def note_sent(self, records: int, size: int, now_s: float) -> None:
        """Note a slice that was given to the producer."""
        if not records:
            return
        if not self._slices:
            self._history.clear()
            self._history.append((now_s, self._acknowledged_bytes()))
        self._sent = _Mark(self._sent.records + records, self._sent.bytes + size)
        self._slices.append(self._sent)

    def note_unacknowledged(self, unacknowledged: int, now_s: float) -> None:
        """Note how many records the producer still has."""
        before, records = self._acknowledged_bytes(), self._sent.records - unacknowledged
        moved = records > self.acknowledged
        self.acknowledged = max(records, self.acknowledged)
        while self._slices and self._slices[0].records <= self.acknowledged:
            self._done = self._slices.popleft()
        after = self._acknowledged_bytes()
        if moved:
            self._history.append((now_s, after))
        self._adapt(after - before, after, now_s)
        self._limited &= bool(self._slices)

    def full(self) -> bool:
        """Whether to wait before sending more; once full, until half of the window is free."""
        in_flight = self._sent.bytes - self._acknowledged_bytes()
        full = in_flight > (self.window // 2 if self._limited else self.window)
        self._limited |= full
        return full

    def silent_s(self, now_s: float) -> float:
        """For how long nothing was acknowledged while something was in flight."""
        return now_s - self._history[-1][0] if self._slices else 0.0

    def _acknowledged_bytes(self) -> int:
        """The bytes acknowledged; a partly acknowledged slice counts in proportion to its records."""
        if not self._slices:
            return self._done.bytes
        records = self._slices[0].records - self._done.records
        share = (self.acknowledged - self._done.records) / records
        return self._done.bytes + int(share * (self._slices[0].bytes - self._done.bytes))

    def _adapt(self, more: int, acknowledged: int, now_s: float) -> None:
        while len(self._history) > 2 and self._history[1][0] < now_s - _AHEAD_S:
            self._history.popleft()
        if not self._history:
            return
        since_s, before = self._history[0]
        if acknowledged == before:
            return
        self.rate = (acknowledged - before) / max(now_s - since_s, 0.001)
        if self._limited:
            wanted = int(self.rate * _AHEAD_S)
            self.window = min(max(_LEAST, min(wanted, self.window + more)), _MOST)
