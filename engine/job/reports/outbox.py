"""The notifications that wait for their turn, and who gets them.

What is noted waits for the next turn. It is written into that turn, behind all events, and given to the other
channels once the turn is saved. A turn that is repeated notes everything again, so `drop` forgets what waits.
Therefore each notification goes out with the turn that it tells of, exactly once if the sink is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.events.record.notification import Notification

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from engine.model import Part
    from engine.ports.sink import PartWriter


@dataclass(frozen=True, slots=True)
class Outlet:
    """Where notifications go, and what makes them.

    `connector` is the name that they carry. `now` is Unix time in seconds, `new_id` makes the ids of those
    that no signal asked for. `record` makes the sink's records, None if the sink gets none. `tell` gives them
    to the other channels; it never waits and raises nothing.
    """

    connector: str
    now: Callable[[], float]
    new_id: Callable[[], str]
    record: Callable[[Sequence[Notification]], pa.RecordBatch] | None
    tell: Callable[[Sequence[Notification]], None]


@dataclass(slots=True)
class Outbox:
    """Keeps notifications until their turn is saved. Without an `outlet` it keeps nothing."""

    outlet: Outlet | None = None
    has_saved: bool = False
    """Whether a turn of this process was saved."""
    _waiting: list[Notification] = field(default_factory=list)
    _written: int = 0

    def drop(self) -> None:
        """Forget what waits: it is noted again."""
        self._waiting, self._written = [], 0

    @property
    def waiting(self) -> bool:
        """Whether a turn is due for what was noted."""
        return bool(self._waiting)

    def new_id(self) -> str:
        """An id for a notification that no signal asked for."""
        return self.outlet.new_id() if self.outlet is not None else ""

    def note(self, aggregate: str, type_: str, id_: str, **data: str) -> None:
        """Add a notification, with the time and the connector's name."""
        if self.outlet is None:
            return
        named = {"connector_name": self.outlet.connector, **data}
        self._waiting.append(Notification(id_, type_, aggregate, int(self.outlet.now() * 1000), named))

    def write(self, writer: PartWriter, part: int) -> list[Part]:
        """Write what waits as this part of a turn, which is then to be saved. Nothing: no part."""
        self._written = len(self._waiting)
        if self.outlet is None or self.outlet.record is None or not self._waiting:
            return []
        return [writer.write(part, [self.outlet.record(self._waiting)])]

    def deliver(self) -> None:
        """Give the other channels what was written, now that its turn is saved."""
        written, self._waiting = self._waiting[: self._written], self._waiting[self._written :]
        self._written, self.has_saved = 0, True
        if self.outlet is not None and written:
            self.outlet.tell(written)
