"""Change rows on their way from the server to the decoder: raw Arrow batches, in memory or in files.

Owns their schema, and the task that stages what Spark's JDBC source has read. A task has the rows of all
change tables for one stretch of the log, ordered within each table. A row whose values contain the separator
is detected here, so that its instance is read again in the escaped form. Pure, except for the files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from adapters.sqlserver.server.position import UNKNOWN_COMMAND
from engine.events.values.row_form import SEPARATOR
from engine.events.values.text import text_parts
from engine.staging.batches import StagedBatches, stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.staging.port import BlockStore

RAW = pa.schema(
    [
        pa.field("instance", pa.int32(), nullable=False),
        pa.field("commit", pa.string(), nullable=False),
        pa.field("command", pa.int32(), nullable=False),
        pa.field("change", pa.string(), nullable=False),
        pa.field("operation", pa.int32(), nullable=False),
        pa.field("committed", pa.string()),
        pa.field("r", pa.large_string(), nullable=False),
    ]
)
"""`instance` is an index into the span's captures; `commit` and `change` are LSNs as positions have them.

`command` orders the changes of a commit (0: unknown). `operation` is CDC's. `committed` is the commit's time
by the server's clock. `r` is the row's text.
"""
COLUMNS = tuple(RAW.names)


@dataclass(frozen=True, slots=True)
class Part:
    """The change rows of a stretch of the log: staged RAW batches, or the batches themselves."""

    rows: int
    staged: tuple[StagedBatches, ...] = ()
    batches: tuple[pa.RecordBatch, ...] = ()

    def load(self) -> list[pa.RecordBatch]:
        """The batches. Those in files are memory-mapped."""
        return [*self.batches, *(batch for staged in self.staged for batch in staged.load())]


NOTHING = Part(0)
"""A part without rows, for a span that has only schema changes."""


def raw_batch(columns: Sequence[pa.Array]) -> pa.RecordBatch:
    """A batch of RAW from the columns as read, with LSNs as hexadecimal digits."""
    instance, commit, command, change, operation, committed, rows = columns
    made = [
        instance.cast(pa.int32()),
        lsn_texts(commit),
        command.cast(pa.int32()),
        lsn_texts(change),
        operation.cast(pa.int32()),
        committed.cast(pa.string()),
        rows.cast(pa.large_string()),
    ]
    return pa.RecordBatch.from_arrays(made, schema=RAW)


def lsn_texts(digits: pa.Array) -> pa.Array:
    """LSNs of twenty digits as texts with colons."""
    small = pc.ascii_lower(digits.cast(pa.string()))
    parts = [pc.utf8_slice_codeunits(small, start, stop) for start, stop in ((0, 8), (8, 16), (16, 20))]
    return pc.binary_join_element_wise(*parts, ":")


def in_order(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """The rows by instance and, within each, in log order."""
    table = pa.Table.from_batches(batches, RAW)
    keys = [(name, "ascending") for name in ("instance", "commit", "command", "change", "operation")]
    return table.sort_by(keys).combine_chunks()


def collided(batches: Iterable[pa.RecordBatch], widths: Mapping[int, int]) -> set[int]:
    """The instances with a value that contains the separator, given each instance's number of columns.

    Instances without a width are skipped: their values are escaped.
    """
    found: set[int] = set()
    for batch in batches:
        offsets, data = text_parts(batch.column("r"))
        marks = np.flatnonzero(data[offsets[0] : offsets[-1]] == ord(SEPARATOR)) + offsets[0]
        each = np.diff(np.searchsorted(marks, offsets))
        instances = batch.column("instance").to_numpy()
        for instance in np.unique(instances):
            width = widths.get(int(instance))
            if width is not None and (each[instances == instance] != width).any():
                found.add(int(instance))
    return found


def unnumbered(batches: Iterable[pa.RecordBatch]) -> set[int]:
    """The instances with rows that have no command id."""
    found: set[int] = set()
    for batch in batches:
        lacking = batch.column("command").to_numpy() == UNKNOWN_COMMAND
        if lacking.any():
            found.update(np.unique(batch.column("instance").to_numpy()[lacking]).tolist())
    return found


@dataclass(frozen=True, slots=True)
class Changes:
    """The change rows that a task has staged.

    `committed` is the greatest time of a commit. `again` and `unnumbered` are instances: with values that
    contain the separator, and with rows that have no command id.
    """

    task: int
    rows: int
    bytes: int
    batches: StagedBatches
    committed: str | None
    again: frozenset[int]
    unnumbered: frozenset[int]


@dataclass(frozen=True, slots=True)
class StageChanges:
    """Stages the change rows of a task. Sent to the executors.

    `widths` are the column counts of the instances whose values are not escaped.
    """

    store: BlockStore
    name: str
    widths: Mapping[int, int] = field(default_factory=dict)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Changes | None:
        """Stage the batches; None if there are no rows."""
        read = [raw_batch(batch.columns) for batch in batches if batch.num_rows]
        if not read:
            return None
        context = TaskContext.get()
        task, attempt = (context.partitionId(), context.taskAttemptId()) if context else (0, 0)
        table = in_order(read)
        return Changes(
            task,
            table.num_rows,
            table.nbytes,
            stage(self.store, table, f"{self.name}-{task:05d}-{attempt}.arrow"),
            pc.max(table["committed"]).as_py(),
            frozenset(collided(read, self.widths)),
            frozenset(unnumbered(read)),
        )
