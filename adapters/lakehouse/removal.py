"""Rows that a repair deletes from a table. No event of the source has their keys.

So a part of a turn has a batch that names the table, with the columns of its key as the table has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson

from adapters.lake.table_name import TableName

if TYPE_CHECKING:
    import pyarrow as pa

_REMOVAL: Final = b"lake removal"


@dataclass(frozen=True, slots=True)
class Removal:
    """The keys of rows to be deleted from a table."""

    table: TableName
    keys: pa.RecordBatch

    @property
    def batch(self) -> pa.RecordBatch:
        """What stands in a part for it."""
        return self.keys.replace_schema_metadata(
            {_REMOVAL: orjson.dumps([self.table.schema, self.table.name])}
        )


def removal_of(batch: pa.RecordBatch) -> Removal | None:
    """The rows that a batch deletes; None if it has events."""
    metadata = batch.schema.metadata or {}
    if _REMOVAL not in metadata:
        return None
    return Removal(TableName(*orjson.loads(metadata[_REMOVAL])), batch.replace_schema_metadata(None))
