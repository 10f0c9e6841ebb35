"""The changes of a table as rows of a history: each event becomes a row. Pure.

A row has the table's columns as they are after the change, of a deleted row as they were before if the event
has that, else its key. Beside them stand:

| column | content |
|---|---|
| `_operation` | c, u, d, t (truncate), r (read by a snapshot) |
| `_committed_at` | when the transaction was committed; of a row that was read, when it was read |
| `_sequence` | `turn`, `part` and `number`: it orders all changes of a table |
| `_source` | the event's source block: position, transaction, and so on |
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adapters.lake.column_types import column, column_type
from adapters.lake.row_columns import columns_of
from adapters.lakehouse.batch import as_type, convert_columns, table_columns
from adapters.lakehouse.port import Batch
from engine.errors import SinkRefused
from engine.events.record.schema_json import schema_from_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.jdbc.folding.turn_events import PlacedBatch
    from adapters.lake.row_columns import Columns
    from engine.events.record.schema import Schema

OPERATION, COMMITTED, SEQUENCE, SOURCE = "_operation", "_committed_at", "_sequence", "_source"
_SEQUENCE: Final = pa.struct([("turn", pa.int64()), ("part", pa.int32()), ("number", pa.int64())])
_UTC: Final = pa.timestamp("us", "UTC")


def history_columns(events: pa.RecordBatch) -> pa.Schema:
    """The columns of a history."""
    columns, source = table_columns(_columns(events)), _source_schema(events)
    more = [
        pa.field(OPERATION, pa.string()),
        pa.field(COMMITTED, _UTC),
        pa.field(SEQUENCE, _SEQUENCE),
        pa.field(SOURCE, column_type(source)),
    ]
    if clash := set(columns.names) & {field.name for field in more}:
        raise SinkRefused(f"the table has columns with names of the history's: {sorted(clash)}")
    return pa.schema([*columns, *more])


def _source_schema(events: pa.RecordBatch) -> Schema:
    return schema_from_json(events.schema.field("source").metadata[b"schema"])


def history_batch(batches: Sequence[PlacedBatch], turns: Sequence[int]) -> Batch:
    """The rows of a group's events, each batch of a turn of its own.

    The columns are those of the newest event, then those that only earlier ones have.
    """
    fields: dict[str, pa.Field] = {}
    for batch in reversed(batches):
        for field in history_columns(batch.events):
            fields.setdefault(field.name, field)
    wanted, before, made = pa.schema(fields.values()), Counter[int](), []
    for batch, turn in zip(batches, turns, strict=True):
        made.append(_rows(batch, turn, before[batch.part], wanted))
        before[batch.part] += batch.events.num_rows
    return Batch(rows=pa.Table.from_batches(made, wanted), columns=wanted, key=())


def _rows(batch: PlacedBatch, turn: int, before: int, wanted: pa.Schema) -> pa.RecordBatch:
    """The rows of a batch. `before` it stand so many events in its part."""
    events = batch.events
    count, columns = events.num_rows, _columns(events)
    found = _images(events, columns)
    source = column(events.column("source"), _source_schema(events)).values
    # Rows that were read have no order: they stay as they came.
    places = pc.coalesce(events.column("order"), pa.array(np.arange(before, before + count)))
    sequence = [
        pa.repeat(pa.scalar(turn, pa.int64()), count),
        pa.repeat(pa.scalar(batch.part, pa.int32()), count),
        pc.cast(places, pa.int64()),
    ]
    found |= {
        OPERATION: pc.cast(events.column("op"), pa.string()),
        COMMITTED: _times(source),
        SEQUENCE: pa.StructArray.from_arrays(sequence, fields=list(_SEQUENCE)),
        SOURCE: source,
    }
    arrays = [
        as_type(found[field.name], field) if field.name in found else pa.nulls(count, field.type)
        for field in wanted
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _columns(events: pa.RecordBatch) -> Columns:
    return columns_of(events, keyless=True)


def _images(events: pa.RecordBatch, columns: Columns) -> dict[str, pa.Array]:
    """The rows after the changes; of deleted ones those before."""
    deleted = pc.equal(events.column("op"), "d")
    at, before = events.schema.get_field_index("after"), events.column("before")
    if not pc.any(deleted).as_py() or before.null_count == len(before):
        return convert_columns(events, columns)
    own = np.arange(len(before))
    at_before = np.where(deleted.to_numpy(zero_copy_only=False), own + len(own), own)
    images = pa.concat_arrays([events.column("after"), before]).take(pa.array(at_before))
    return convert_columns(events.set_column(at, events.schema.field(at), images), columns)


def _times(source: pa.StructArray) -> pa.Array:
    names = source.type.names
    name, unit = ("ts_us", "us") if "ts_us" in names else ("ts_ms", "ms")
    return pc.cast(pc.cast(pc.struct_field(source, name), pa.timestamp(unit, "UTC")), _UTC)
