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

from adapters.spark.worker import spare_worker
from adapters.sqlserver.server.position import UNKNOWN_COMMAND
from adapters.staging.span_files import SpanFile, save
from engine.events.values.row_texts import SEPARATOR
from engine.events.values.text import text_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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
"""`instance` is an index into the span's captures; `commit` and `change` are LSNs as `place` writes them.

`command` orders the changes of a commit (0: unknown). `operation` is CDC's. `committed` is the commit's time
by the server's clock. `r` is the row's text.
"""
COLUMNS = tuple(RAW.names)


@dataclass(frozen=True, slots=True)
class Part:
    """The change rows of a stretch of the log: files of RAW batches, or the batches themselves."""

    rows: int
    files: tuple[SpanFile, ...] = ()
    batches: tuple[pa.RecordBatch, ...] = ()

    def load(self) -> list[pa.RecordBatch]:
        """The batches. Those in files are memory-mapped."""
        return [*self.batches, *(batch for file in self.files for batch in file.load())]


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
class StageChanges:
    """Stages the change rows of a task. Sent to the executors.

    `widths` are the column counts of the instances whose values are not escaped.
    """

    directory: str
    name: str
    widths: Mapping[int, int] = field(default_factory=dict)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Stage the batches. Yields one row of RESULT, or none if there are no rows."""
        yield from self._staged([raw_batch(batch.columns) for batch in batches if batch.num_rows])
        spare_worker()

    def _staged(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not batches:
            return
        context = TaskContext.get()
        task, attempt = (context.partitionId(), context.taskAttemptId()) if context else (0, 0)
        again = sorted(collided(batches, self.widths))
        table = in_order(batches)
        file = save(self.directory, table, f"{self.name}-{task:05d}-{attempt}.arrow")
        yield pa.RecordBatch.from_pylist(
            [
                {
                    "task": task,
                    "rows": table.num_rows,
                    "bytes": table.nbytes,
                    "path": file.path,
                    "size": file.checksum.bytes,
                    "digest": file.checksum.digest,
                    "committed": pc.max(table["committed"]).as_py(),
                    "again": ",".join(map(str, again)),
                    "unnumbered": ",".join(map(str, sorted(unnumbered(batches)))),
                }
            ],
            schema=RESULT,
        )


RESULT = pa.schema(
    [
        ("task", pa.int32()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("digest", pa.string()),
        ("committed", pa.string()),
        ("again", pa.string()),
        ("unnumbered", pa.string()),
    ]
)
RESULT_DDL = (
    "task int, rows long, bytes long, path string, size long, digest string, committed string, again string,"
    " unnumbered string"
)
