"""What tasks of Spark's do with the rows of runs that JDBC has read: split, encode, stage.

Owns the task and its results, for every source that reads rows so; the queries are the adapters'.
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
from engine.events.rows import RowMode, SeparatorInData
from engine.model import Staged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from engine.model import Run
    from engine.reads import ReadEvents
    from engine.staging import StagingArea

_READING = "engine.reads"
RESULT = pa.schema(
    [
        ("run", pa.int32()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("path", pa.string()),
        ("collided", pa.bool_()),
    ]
)
RESULT_DDL = "run int, rows long, bytes long, path string, collided boolean"


@dataclass(frozen=True, slots=True)
class ReadTask:
    """What a task does with the rows it is given: split, encode, stage. Goes to the executors.

    Batches have the rows' texts and the numbers of their runs. Where every task reads one run, the
    texts alone: then `alone` has the run of each task.
    """

    reads: Mapping[int, ReadEvents]
    area: StagingArea
    mode: RowMode
    alone: tuple[int, ...] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Do it in a Python worker of Spark's."""
        yield from self.staged(batches)
        spare_worker()

    def staged(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Stage every run that has rows; yields one row of RESULT for each."""
        results: dict[int, list[int | bool | str]] = {}
        with ExitStack() as files:
            writers = {}
            for batch in batches:
                for index, rows in self._by_run(batch):
                    if index not in writers:
                        path = self.area.path(index, attempt())
                        writers[index] = files.enter_context(self.area.file(path, self.reads[index].around))
                        results[index] = [index, 0, 0, path, False]
                    result = results[index]
                    try:
                        staged = self.reads[index].staged(rows, self.mode)
                    except SeparatorInData:
                        result[4] = True
                        continue
                    writers[index](staged)
                    result[1] = int(result[1]) + staged.num_rows
                    result[2] = int(result[2]) + staged.nbytes
        if results:
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(column, kind.type)
                    for column, kind in zip(zip(*results.values(), strict=True), RESULT, strict=True)
                ],
                schema=RESULT,
            )

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
    """The number of the task's attempt, of which no other has it; 0 outside of Spark."""
    context = TaskContext.get()
    return int(context.taskAttemptId()) if context else 0


def nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A task without results, that imports everything that a reading task needs."""
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
        )
        for row in sorted(results, key=lambda row: row["run"])
    ]
