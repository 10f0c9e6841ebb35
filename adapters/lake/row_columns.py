"""The columns that a batch of typed events gives a table, and their values. Pure.

A table of a relational source has the columns of its rows, and those of its key. A collection of documents
has the columns of its key, and `document`. Values of key columns are those of the key, which masks don't
apply to.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import SinkRefused
from engine.events.record.schema import UNTOLD
from engine.events.record.schema_json import schema_from_json

if TYPE_CHECKING:
    from engine.events.record.schema import Schema

DOCUMENT: Final = "document"


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table by the schemas of its events, and the source's `connector`."""

    key: tuple[tuple[str, Schema], ...]
    row: tuple[tuple[str, Schema], ...]
    connector: str

    @property
    def all(self) -> dict[str, Schema]:
        """All columns by name, in order; the key's schemas count for its columns."""
        return {**dict(self.row), **dict(self.key)}


def columns_of(batch: pa.RecordBatch, *, keyless: bool = False) -> Columns:
    """The columns of a batch.

    Raises SinkRefused for a table without a key, or whose log does not tell it, unless it may be `keyless`.
    """
    key = batch.schema.field("key")
    if not keyless:
        _check_key(key)
    after, source = (_schema(_metadata(batch, name)) for name in ("after", "source"))
    row = after.fields if after.type == "struct" else ((DOCUMENT, after),)
    connector = (source.name or "").removeprefix("io.debezium.connector.").partition(".")[0]
    fields = () if key.metadata is None else _schema(key.metadata[b"schema"]).fields
    return Columns(fields, row, connector)


def _check_key(key: pa.Field) -> None:
    """Refuse a key by which rows can't be found again."""
    if key.metadata is None:
        raise SinkRefused(
            "the table has no key, by which its rows could be found again",
            hint="give it a primary key, or name columns in message.key.columns",
        )
    if UNTOLD in key.metadata:
        raise SinkRefused(
            "its replica identity lacks columns of the key, so the log does not tell which rows are deleted",
            hint="set REPLICA IDENTITY FULL on it, or on its partitions if it has any",
        )


def _metadata(batch: pa.RecordBatch, name: str) -> bytes:
    metadata: dict[bytes, bytes] = batch.schema.field(name).metadata
    return metadata[b"schema"]


@lru_cache(maxsize=1024)
def _schema(text: bytes) -> Schema:
    return schema_from_json(text)


def value(batch: pa.RecordBatch, name: str) -> pa.Array:
    """The typed values of a column of the rows after the changes."""
    after = batch.column("after")
    return after if not pa.types.is_struct(after.type) else pc.struct_field(after, name)


def changes_in(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Typed events without tombstones."""
    return batch.filter(batch.column("op").is_valid()) if batch.column("op").null_count else batch


def source_of(events: pa.RecordBatch) -> dict[str, str | None]:
    """The source block of the first event."""
    block: dict[str, str | None] = events.column("source")[0].as_py()
    return block
