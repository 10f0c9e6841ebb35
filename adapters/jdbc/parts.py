"""Batches in the parts of a turn: typed events, each batch of one table, and records with such events inside.

Events of a table that was set aside are kept as records, each with the event's typed row inside. They come
back as records, too, once the table takes events again.

A repair deletes rows that only the target has. No event of the source has such a key, so a batch names the
table, the columns of its key, and the keys as the target writes them.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from adapters.lake.table_name import TableName
from engine.events.batch import EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.events.values.text import Text

_PACKED: Final = '"tidemark.row"'
"""The key of a record that has a typed row inside."""
_CODEC: Final = "zstd"
_REMOVAL: Final = b"removal"


def topic_of(batch: pa.RecordBatch) -> str | None:
    """The topic of typed events; None if these are records."""
    metadata = batch.schema.metadata or {}
    return None if b"topic" not in metadata else metadata[b"topic"].decode()


def packed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Typed events as records, in their order; tombstones are left out."""
    rows = [batch.slice(at, 1) for at in range(batch.num_rows) if batch.column("op")[at].is_valid]
    at = batch.schema.get_field_index("order")
    order = batch.schema.field(at)
    rows = [row.set_column(at, order, pa.nulls(1, order.type)) for row in rows]
    topics = pa.array([topic_of(batch)] * len(rows), pa.string()).dictionary_encode()
    text = pa.large_string()
    columns = [topics, pa.array([_PACKED] * len(rows), text), pa.array(map(_text, rows), text)]
    return pa.RecordBatch.from_arrays([*columns, pa.nulls(len(rows), text)], schema=EVENTS)


def _text(row: pa.RecordBatch) -> str:
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, row.schema) as stream:
        stream.write_batch(row)
    content = written.getvalue()
    small = pa.compress(content, _CODEC, asbytes=True)
    return f'"{content.size}:{base64.b64encode(small).decode()}"'


def unpacked(records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The typed events inside of records; records that have none are left out."""
    for text in records.filter(pc.equal(records["key"], _PACKED))["value"].to_pylist():
        size, _colon, data = text.strip('"').partition(":")
        content = pa.decompress(base64.b64decode(data), int(size), _CODEC)
        with pa.ipc.open_stream(content) as stream:
            yield from stream


@dataclass(frozen=True, slots=True)
class Removal:
    """Rows to be deleted from a table: the columns of its key, and the keys as fields of COPY."""

    table: TableName
    key: tuple[str, ...]
    rows: Text

    @property
    def batch(self) -> pa.RecordBatch:
        """What stands in a part for it."""
        names = orjson.dumps([self.table.schema, self.table.name, *self.key])
        schema = pa.schema([("rows", pa.large_string())], {_REMOVAL: names})
        return pa.RecordBatch.from_arrays([self.rows], schema=schema)


def removal_of(batch: pa.RecordBatch) -> Removal | None:
    """The rows that a batch deletes; None if it has events."""
    metadata = batch.schema.metadata or {}
    if _REMOVAL not in metadata:
        return None
    schema, name, *key = orjson.loads(metadata[_REMOVAL])
    return Removal(TableName(schema, name), tuple(key), batch.column("rows"))
