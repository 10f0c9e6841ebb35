"""Heartbeats: an event and a statement at an interval, so that consumers and an idle log make progress.

Owns when one is due. The codec defines the event, the source runs the statement.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from engine.model import Part
    from engine.ports.sink import PartWriter

_log = logging.getLogger("engine")


@dataclass(slots=True)
class Heartbeat:
    """When heartbeats are due. `event` makes one for a time in ms, `act` runs the statement. 0 s: never."""

    interval_s: float
    event: Callable[[int], pa.RecordBatch]
    act: Callable[[], None]
    next_s: float = float("-inf")

    def due(self, clock_s: float) -> bool:
        """Whether this turn needs a heartbeat, by a clock that never goes back."""
        return self.interval_s > 0 and clock_s >= self.next_s

    def beat(self, writer: PartWriter, part: int, clock_s: float, now_s: float) -> Part:
        """Write the event, for Unix time `now_s`, and run the statement. Its failure is only a warning."""
        self.next_s = clock_s + self.interval_s
        written = writer.write(part, [self.event(int(now_s * 1000))])
        try:
            self.act()
        except SourceError as error:
            _log.warning("the heartbeat's statement failed: %s", error)
        return written
