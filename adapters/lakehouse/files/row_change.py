"""Changes of a replica as a file of new rows and positions of old ones. What a MERGE does, without Spark.

A row that has changed goes from its old file and stands in the new one, with the values that it keeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adapters.lakehouse.files.data_file import DeadRows, fit_rows
from adapters.lakehouse.files.kept_values import KeptValues
from adapters.lakehouse.files.key_matches import BatchKeys
from adapters.lakehouse.port import DELETED
from engine.errors import SinkError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.lakehouse.files.data_file import FileWrite
    from adapters.lakehouse.port import Batch


class RowChange(NamedTuple):
    """The new rows as the table's files have them, and the old ones."""

    rows: pa.Table
    gone: Sequence[DeadRows]


def row_change(batch: Batch, write: FileWrite) -> RowChange | None:
    """None if only Spark can make the change. Raises SinkError if a file can't be read."""
    try:
        return _row_change(batch, write)
    except pa.ArrowInvalid as error:
        raise SinkError(f"a file of the table can't be read: {error}") from error


def _row_change(batch: Batch, write: FileWrite) -> RowChange | None:
    there = pc.invert(batch.rows.column(DELETED))
    fitting = fit_rows(batch.rows.filter(there).select(batch.columns.names), write.columns)
    keys = BatchKeys.of(batch.rows, batch.key, write.columns)
    kept = KeptValues.of(batch, write.columns)
    if fitting is None or keys is None or kept is None:
        return None
    column, bounds = keys.first
    files = write.files(column, None if kept.bases else bounds)
    if files is None:
        return None
    gone = []
    for file in files:
        matches = keys.matches(file.path, file.dead)
        if matches is None or not kept.gather(file, matches):
            return None
        if len(matches.positions):
            gone.append(DeadRows(file, matches.positions))
    return RowChange(kept.into(fitting, np.flatnonzero(there.to_numpy())), gone)
