"""What is known of the stream across turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.mongodb.log.position import event_position, time_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.mongodb.events.facts import DecodedPart
    from adapters.mongodb.log.reader import Span
    from adapters.source.log.open_transaction import OpenTransaction
    from engine.model import Position


@dataclass(slots=True)
class StreamState:
    """The transaction whose events are counted, the last event, and the cluster time of the newest one."""

    transaction: OpenTransaction | None = None
    event: Position | None = None
    to: tuple[int, int] = (0, 0)

    def note_span(self, span: Span, decoded: Sequence[DecodedPart]) -> None:
        """Note that a span was encoded."""
        self.transaction = decoded[-1].open if decoded else self.transaction
        if span.batches:
            self.event = event_position(span.batches[-1][-1])
            self.to = time_of(self.event)
