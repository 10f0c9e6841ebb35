"""The columns that a batch of typed events gives a target table, and their values as text. Pure.

A table of a relational source has the columns of its rows, and those of its key. A collection of documents
has the columns of its key, and `document`. Values of key columns are those of the key, which masks don't
apply to.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from adapters.jdbc.column_types import escaped, texts
from engine.errors import SinkRefused
from engine.events.record.schema_json import schema_from_json
from engine.events.record.typed import constant
from engine.events.values.text import join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.events.record.schema import Schema
    from engine.events.values.text import Text

DOCUMENT: Final = "document"
_END: Final = "\n"
_NULL: Final = "\\N"


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


def columns_of(batch: pa.RecordBatch) -> Columns:
    """The columns of a batch. Raises SinkRefused for a table without a key."""
    key = batch.schema.field("key")
    if key.metadata is None:
        raise SinkRefused(
            "the table has no key, by which its rows could be found again",
            hint="give it a primary key, or name columns in message.key.columns",
        )
    after, source = (_schema(_metadata(batch, name)) for name in ("after", "source"))
    row = after.fields if after.type == "struct" else ((DOCUMENT, after),)
    connector = (source.name or "").removeprefix("io.debezium.connector.").partition(".")[0]
    return Columns(_schema(key.metadata[b"schema"]).fields, row, connector)


def _metadata(batch: pa.RecordBatch, name: str) -> bytes:
    metadata: dict[bytes, bytes] = batch.schema.field(name).metadata
    return metadata[b"schema"]


@lru_cache(maxsize=1024)
def _schema(text: bytes) -> Schema:
    return schema_from_json(text)


def key_texts(batch: pa.RecordBatch, columns: Columns) -> Text:
    """The keys of events as fields of COPY; null where a part of the key is."""
    fields: list[str | Text] = []
    for text in _keys(batch, columns).values():
        fields += ["\t"] if fields else []
        fields.append(text)
    return join(fields, batch.num_rows)


def _keys(batch: pa.RecordBatch, columns: Columns) -> dict[str, Text]:
    members = batch.column("key").flatten()
    return {
        name: escaped(texts(member, schema))
        for (name, schema), member in zip(columns.key, members, strict=True)
    }


def value(batch: pa.RecordBatch, name: str) -> pa.Array:
    """The typed values of a column of the rows after the changes."""
    after = batch.column("after")
    return after if not pa.types.is_struct(after.type) else pc.struct_field(after, name)


def column_texts(batch: pa.RecordBatch, columns: Columns, names: Sequence[str]) -> list[Text]:
    """The values of these columns as fields of COPY; a column that the batch lacks is null."""
    found: dict[str, Text] = _keys(batch, columns)
    for name, schema in columns.row:
        if name in names and name not in found:
            found[name] = escaped(texts(value(batch, name), schema))
    missing = pa.nulls(batch.num_rows, pa.large_string())
    return [found.get(name, missing) for name in names]


def default_text(schema: Schema) -> str | None:
    """The default of a column, as PostgreSQL reads it."""
    if schema.default is None:
        return None
    given = constant(schema.default, schema)
    shown: str | None = texts(pa.array([given.as_py()], given.type), schema)[0].as_py()
    return shown


def lines(fields: Sequence[Text]) -> Text:
    """Lines of COPY from the fields of each row."""
    pieces: list[Any] = []
    for field in fields:
        pieces += [field, "\t"]
    pieces[-1] = _END
    scalars = [pa.scalar(piece, pa.large_string()) if isinstance(piece, str) else piece for piece in pieces]
    return pc.binary_join_element_wise(
        *scalars, pa.scalar("", pa.large_string()), null_handling="replace", null_replacement=_NULL
    )
