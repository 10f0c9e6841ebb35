"""What Spark tasks do with the rows that JDBC has read: split them into runs, encode, stage.

Owns the task and its results, for every source that reads rows this way; the adapters own the queries.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from adapters.spark.worker import spare_worker
from engine.events.values.row_texts import RowMode, SeparatorInData
from engine.model import Checksum, Staged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from engine.model import Run
    from engine.staging.reads import ReadEvents
    from engine.staging.staged_rows import RunFile, StagingArea

_READING = "engine.staging.reads"
RESULT = pa.schema(
    [
        ("run", pa.int32()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("path", pa.string()),
        ("collided", pa.bool_()),
        ("arrow_bytes", pa.int64()),
        ("arrow_digest", pa.string()),
        ("texts_bytes", pa.int64()),
        ("texts_digest", pa.string()),
    ]
)
RESULT_DDL = (
    "run int, rows long, bytes long, path string, collided boolean,"
    " arrow_bytes long, arrow_digest string, texts_bytes long, texts_digest string"
)


@dataclass(slots=True)
class _Staging:
    """A run that a task stages. `collided`: a value contains the separator, so the run must be read again."""

    index: int
    path: str
    file: RunFile
    rows: int = 0
    bytes: int = 0
    collided: bool = False

    def take(self, batch: pa.RecordBatch) -> None:
        self.file.write(batch)
        self.rows += batch.num_rows
        self.bytes += batch.nbytes

    def result(self) -> dict[str, Any]:
        """A row of RESULT, once the file is complete."""
        arrow, texts = self.file.checksums
        return {
            "run": self.index,
            "rows": self.rows,
            "bytes": self.bytes,
            "path": self.path,
            "collided": self.collided,
            "arrow_bytes": arrow.bytes,
            "arrow_digest": arrow.digest,
            "texts_bytes": texts.bytes,
            "texts_digest": texts.digest,
        }


@dataclass(frozen=True, slots=True)
class ReadTask:
    """What a task does with its rows: split, encode, stage. Sent to the executors.

    Batches have the rows' texts and the numbers of their runs. If every task reads one run, they have only
    the texts, and `alone` has the run of each task.
    """

    reads: Mapping[int, ReadEvents]
    area: StagingArea
    mode: RowMode
    alone: tuple[int, ...] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task in a Python worker of Spark."""
        yield from self.staged(batches)
        spare_worker()

    def staged(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Stage every run that has rows; yields one row of RESULT for each."""
        runs: dict[int, _Staging] = {}
        with ExitStack() as files:
            for batch in batches:
                for index, rows in self._by_run(batch):
                    if index not in runs:
                        path = self.area.path(index, attempt())
                        file = files.enter_context(self.area.file(path, self.reads[index].around))
                        runs[index] = _Staging(index, path, file)
                    try:
                        runs[index].take(self.reads[index].staged(rows, self.mode))
                    except SeparatorInData:
                        runs[index].collided = True
        if runs:
            yield pa.RecordBatch.from_pylist([run.result() for run in runs.values()], schema=RESULT)

    def _by_run(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.Array]]:
        """The rows of a batch by run; a task reads its runs one after the other."""
        if not batch.num_rows:
            return
        if self.alone:
            context = TaskContext.get()
            yield self.alone[context.partitionId() if context else 0], batch.column(0)
            return
        rows, runs = batch.column(0), batch.column(1).to_numpy()
        starts = np.concatenate(([0], np.flatnonzero(np.diff(runs)) + 1, [len(runs)]))
        for start, end in pairwise(starts):
            yield int(runs[start]), rows.slice(start, end - start)


def attempt() -> int:
    """The unique number of the task's attempt; 0 outside of Spark."""
    context = TaskContext.get()
    return int(context.taskAttemptId()) if context else 0


def nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A task without results that imports everything that a reading task needs."""
    import_module(_READING)
    for _batch in batches:
        yield from ()


def staged_runs(results: Iterable[Mapping[str, Any]], runs: Sequence[Run]) -> list[Staged]:
    """The files of the runs with rows, in the runs' order, from rows of RESULT."""
    return [
        Staged(
            ticket=runs[row["run"]].ticket,
            collection=runs[row["run"]].target.collection,
            path=row["path"],
            rows=row["rows"],
            bytes=row["bytes"],
            run=row["run"],
            arrow=Checksum(row["arrow_bytes"], row["arrow_digest"]),
            texts=Checksum(row["texts_bytes"], row["texts_digest"]),
        )
        for row in sorted(results, key=lambda row: row["run"])
    ]
