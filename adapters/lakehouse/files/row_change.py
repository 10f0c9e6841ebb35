"""Changes of a replica as a file of new rows, and the places of old ones. What a MERGE does, without Spark.

A row that has changed goes from its old file and stands in the new one. So its new version must be whole:
changes that keep values of the table, and tables with columns that the changes lack, are left to Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow.compute as pc

from adapters.lakehouse.files.data_file import Gone, fitted
from adapters.lakehouse.files.places import BatchKeys
from adapters.lakehouse.port import DELETED

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from adapters.lakehouse.files.data_file import FileWrite
    from adapters.lakehouse.port import Batch


class RowChange(NamedTuple):
    """The new rows as the table's files have them, and the old ones."""

    rows: pa.Table
    gone: Sequence[Gone]


def row_change(batch: Batch, write: FileWrite) -> RowChange | None:
    """None if only Spark can make the change."""
    there = batch.rows.filter(pc.invert(batch.rows.column(DELETED))).select(batch.columns.names)
    given = {name.lower() for name in batch.columns.names}
    whole = not there.num_rows or all(column.name.lower() in given for column in write.columns)
    keys = BatchKeys.of(batch.rows, batch.key, write.columns)
    fitting = fitted(there, write.columns)
    if batch.kept or not whole or keys is None or fitting is None:
        return None
    files = write.files(*keys.first)
    if files is None:
        return None
    gone = []
    for file in files:
        places = keys.places(file.path, file.dead)
        if places is None:
            return None
        if len(places.positions):
            gone.append(Gone(file, places.positions))
    return RowChange(fitting, gone)
