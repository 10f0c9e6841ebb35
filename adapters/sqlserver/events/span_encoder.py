"""How a part of a span is decoded on its way to the sink.

`adapters.source.log.span_encoder` does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adapters.sqlserver.events.decode import decode

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from adapters.source.log.open_transaction import OpenTransaction
    from adapters.source.log.span_encoder import EncodePart, SpanEncoder
    from adapters.sqlserver.events.decode import DecodedPart, Rules, Watch
    from adapters.sqlserver.events.schema_changes import SchemaChange
    from adapters.sqlserver.log.changes import Part


@dataclass(frozen=True, slots=True)
class PartContext:
    """What a part is decoded with: the transaction left open before it, and schema changes to emit."""

    before: OpenTransaction | None = None
    changes: tuple[SchemaChange, ...] = ()


@dataclass(frozen=True, slots=True)
class DecodePart:
    """Decodes a part. Goes to the executors."""

    rules: Rules
    watch: Watch
    now_ms: int

    def __call__(self, raw: Sequence[pa.RecordBatch], context: PartContext) -> DecodedPart:
        """Decode batches of change rows."""
        return decode(raw, self.rules, self.watch, self.now_ms, context.before, context.changes)


def encode_parts(
    encoder: SpanEncoder,
    task: EncodePart[PartContext, DecodedPart],
    parts: Sequence[Part],
    context: PartContext,
    *,
    one_by_one: bool,
) -> list[DecodedPart]:
    """The parts' facts, in order.

    Schema changes go into the first part, so that a table's shape precedes its rows.
    """
    given = [((*part.staged, *part.batches), replace(context, changes=())) for part in parts]
    if given:
        given[0] = (given[0][0], context)
    rows = sum(part.rows for part in parts)
    return encoder.encode(task, given, rows, _after if one_by_one else None)


def _after(part: PartContext, last: DecodedPart) -> PartContext:
    return replace(part, before=last.open)
