"""How a part of a span is decoded on its way to the sink.

`adapters.source.log.span_encoder` does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from adapters.mongodb.events.decode import decode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.mongodb.events.codec import Rules
    from adapters.mongodb.events.facts import DecodedPart, Watch
    from adapters.mongodb.log.reader import Span
    from adapters.source.log.open_transaction import OpenTransaction
    from adapters.source.log.span_encoder import EncodePart, SpanEncoder

_PART_ROWS = 25_000


@dataclass(frozen=True, slots=True)
class DecodePart:
    """Decodes a part in the context of the transaction left open before it. Goes to the executors."""

    rules: Rules
    watch: Watch
    now_ms: int

    def __call__(self, raw: Sequence[pa.RecordBatch], before: OpenTransaction | None) -> DecodedPart:
        """Decode a batch of change events."""
        (batch,) = raw
        return decode(batch.column(0).to_pylist(), self.rules, self.watch, self.now_ms, before)


def encode_span(
    encoder: SpanEncoder,
    task: EncodePart[OpenTransaction | None, DecodedPart],
    span: Span,
    before: OpenTransaction | None,
    *,
    whole: bool,
) -> list[DecodedPart]:
    """The facts of the span's parts, in order. `before` is the transaction that the last span left open.

    `whole` keeps the span in one part, because its transaction metadata passes from event to event.
    """
    changes = list(chain.from_iterable(span.batches))
    local = whole or len(changes) <= encoder.local_rows
    rows = len(changes) if local else min(_PART_ROWS, -(-len(changes) // 2))
    parts = [changes[start : start + rows] for start in range(0, len(changes), rows or 1)]
    given = [((_batch(part),), before) for part in parts]
    return encoder.encode(task, given, len(changes))


def _batch(changes: Sequence[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(changes, pa.large_binary())], names=["change"])
