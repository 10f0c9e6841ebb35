"""The null sink: consumes every event, counts it and keeps nothing.

For measuring the cost of everything before the sink. It consumes every batch, as any sink must.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from adapters.sinks.forgetful import Forgetful
from engine.errors import InvariantError, SinkRefused
from engine.events.batch import EventForm
from engine.model import Part
from engine.staging.event_rows import EventRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from engine.ports.sink import PartWriter


@dataclass(frozen=True, slots=True)
class CountingWriter:
    """Counts the events of parts."""

    def write(self, part: int, batches: Iterable[pa.RecordBatch]) -> Part:
        """Drop the part's events, and return how many there were."""
        return Part(part, sum(batch.num_rows for batch in batches))


class NullSink(Forgetful):
    """Drops events. `rows` counts those of the committed turns."""

    form: Final = EventForm.RECORDS
    row_form: Final = EventRows()

    def __init__(self) -> None:
        self._begun: int | None = None
        self._committed: int | None = None
        self.rows = 0

    def writer(self, turn: int) -> PartWriter:
        """Begin a turn."""
        if self.resolve_commit(turn):
            raise SinkRefused(f"turn {turn} is committed already", where="null sink")
        self._begun = turn
        return CountingWriter()

    def commit(self, turn: int, parts: Sequence[Part]) -> None:
        """Add the turn's events to `rows`."""
        if self.resolve_commit(turn):
            return
        if turn != self._begun:
            raise InvariantError(f"turn {turn} is committed without having been begun")
        self.rows += sum(part.events for part in parts)
        self._committed = turn

    def resolve_commit(self, turn: int) -> bool:
        """Return whether this process has committed the turn."""
        return turn == self._committed

    def newest_turn(self) -> None:
        """Return None: nothing is kept."""

    def close(self) -> None:
        """Do nothing."""
