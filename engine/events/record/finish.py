"""Completes drafts to events: rendered as records, in one join per draft, or as typed columns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.events.columns import in_order, typed_events
from engine.events.record.assemble import EventGroup, event_batch
from engine.events.record.drafts import TOMBSTONE_TURN
from engine.events.record.envelope import value_pieces
from engine.events.values.text import join

if TYPE_CHECKING:
    import pyarrow as pa

    from engine.events.record.drafts import Draft
    from engine.events.values.text import Piece, Text


@dataclass(frozen=True, slots=True)
class Events:
    """Collects the events of a part, whose `ts_ms` is `now_ms`; the codec of a draft chooses their form.

    `operations` counts them by operation, without tombstones.
    """

    now_ms: int
    groups: list[EventGroup] = field(default_factory=list)
    typed: list[pa.RecordBatch] = field(default_factory=list)
    operations: Counter[str] = field(default_factory=Counter)

    def add(self, draft: Draft, source: list[Piece], block: Text | None) -> None:
        """Complete a draft with its source blocks and its transaction blocks, both as JSON."""
        self.operations[draft.op] += len(draft.messages)
        if draft.codec.schemas is None:
            self.groups.extend(render(draft, source, block, self.now_ms))
        else:
            self.typed.extend(typed_events(draft, join(source, len(draft.messages)), block, self.now_ms))

    def records(self) -> pa.RecordBatch:
        """The rendered events in log order."""
        return event_batch(self.groups)

    def columns(self) -> tuple[pa.RecordBatch, ...]:
        """The typed events, a batch for each table."""
        return in_order(self.typed)


def render(draft: Draft, source: list[Piece], block: Text | None, now_ms: int) -> list[EventGroup]:
    """Render the records of a draft, and their tombstones."""
    (before, after), topic = draft.codec.value_affixes, draft.codec.topic
    tail: list[Piece] = [f'{now_ms},"transaction":', "null" if block is None else block, f"}}{after}"]
    pieces = value_pieces(draft.before, draft.after, source, draft.op, tail)
    value = join([before, *pieces], len(draft.messages))
    made = [EventGroup(topic, draft.messages, draft.turn, draft.key, value, draft.headers)]
    if draft.tombstone:
        made.append(EventGroup(topic, draft.messages, TOMBSTONE_TURN, draft.key, None, draft.headers))
    return made
