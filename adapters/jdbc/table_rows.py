"""The values of a batch of typed events as fields and lines of COPY. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from adapters.jdbc.column_types import escaped, texts
from adapters.lake.row_columns import value
from engine.events.record.typed import constant
from engine.events.values.text import join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.lake.row_columns import Columns
    from engine.events.record.schema import Schema
    from engine.events.values.text import Text

_END: Final = "\n"
_NULL: Final = "\\N"


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
