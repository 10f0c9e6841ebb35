"""How a part of a span is decoded on its way to the sink.

`adapters.source.log.span_encoder` does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from adapters.postgres.events.decode import DecodedPart, decode
from adapters.postgres.events.source_block import Moment
from adapters.postgres.log.timeline import SpanPart, TransactionContext
from adapters.source.log.span_encoder import EncodePart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adapters.postgres.log.touched_keys import Watch
    from adapters.source.log.span_encoder import SpanEncoder
    from engine.clock import Clock
    from engine.events.codec import TableCodec
    from engine.events.settings import EventSettings
    from engine.ports.sink import PartWriter


@dataclass(frozen=True, slots=True)
class PartContext:
    """What a part's messages are decoded with: what came before them, and the codecs of their relations."""

    before: TransactionContext
    codecs: Mapping[int, TableCodec]

    def after(self, last: TransactionContext | None) -> PartContext:
        """The same with the open transaction's counters of `last`, the context that the part before left."""
        if last is None or self.before.xid is None or self.before.xid != last.xid:
            return self
        return replace(self, before=replace(self.before, events=last.events, collections=last.collections))


@dataclass(frozen=True, slots=True)
class DecodePart:
    """Decodes a part. Goes to the executors."""

    settings: EventSettings
    watch: Watch
    moment: Moment

    def __call__(self, raw: Sequence[pa.RecordBatch], context: PartContext) -> DecodedPart:
        """Decode a batch of messages."""
        (batch,) = raw
        part = SpanPart(batch.column(0), context.before)
        return decode(part, context.codecs, self.settings, self.watch, self.moment)


class PostgresSpans:
    """Encodes the parts of spans, in order."""

    def __init__(
        self,
        settings: EventSettings,
        encoder: SpanEncoder,
        clock: Clock,
        xmin: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._settings, self._encoder, self._clock, self._xmin = settings, encoder, clock, xmin

    @property
    def sends_truncates(self) -> bool:
        """Whether truncates become events."""
        return "t" not in self._settings.skipped_operations

    def encode(
        self,
        parts: Sequence[tuple[SpanPart, Mapping[int, TableCodec]]],
        entries: int,
        watch: Watch,
        writer: PartWriter,
        before: TransactionContext | None,
        *,
        again: bool = False,
    ) -> list[DecodedPart]:
        """Encode the parts and return their facts, in order.

        `before` is the context at the end of the last span, None at the start. `again`: the parts were
        encoded with more tables before.
        """
        moment = Moment(self._clock.now_ms, self._xmin())
        task = EncodePart(DecodePart(self._settings, watch, moment), writer, again)
        given = [
            (
                (pa.RecordBatch.from_arrays([part.messages], names=["message"]),),
                PartContext(part.context, known),
            )
            for part, known in parts
        ]
        if not self._settings.transaction_metadata or not given:
            return self._encoder.encode(task, given, entries)
        given[0] = (given[0][0], given[0][1].after(before))
        return self._encoder.encode(task, given, entries, lambda part, last: part.after(last.context))
