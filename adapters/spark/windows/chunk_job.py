"""What Spark tasks do with the rows that JDBC has read: split them into runs, encode, stage.

Owns the task and its results, for every source that reads rows this way; the adapters own the queries.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from pyspark import TaskContext

from engine.events.values.row_texts import SeparatorInData
from engine.model import StagedRun
from engine.staging.compared_rows import COMPARED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from engine.events.values.row_form import RowMode
    from engine.model import Run
    from engine.snapshot.key_hashes import KeyHashes
    from engine.staging.port import StagedRows
    from engine.staging.reads import ReadEvents
    from engine.staging.rows import StagingArea, StagingRun

_READING = "engine.staging.reads"


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run that a task has staged as `content`; `run` is its number in the window.

    `collided`: a value contains the separator, so the run must be read again.
    """

    run: int
    rows: int
    bytes: int
    content: StagedRows
    hashes: KeyHashes | None
    collided: bool


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

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> list[RunResult]:
        """Stage every run that has rows."""
        runs: dict[int, StagingRun] = {}
        collided: set[int] = set()
        with ExitStack() as staging:
            for batch in batches:
                for index, rows in self._by_run(batch):
                    read = self.reads[index]
                    if index not in runs:
                        form = COMPARED if read.compared else None
                        run = self.area.run(index, read.affixes, attempt(), form)
                        runs[index] = staging.enter_context(run)
                    try:
                        runs[index].write(read.staged(rows, self.mode))
                    except SeparatorInData:
                        collided.add(index)
        return [
            RunResult(index, run.rows, run.bytes, run.complete, run.hashes, index in collided)
            for index, run in runs.items()
        ]

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


def nothing(batches: Iterable[pa.RecordBatch]) -> None:
    """A task without results that imports everything that a reading task needs."""
    import_module(_READING)
    for _batch in batches:
        pass


def staged_runs(results: Iterable[RunResult], runs: Sequence[Run]) -> list[StagedRun]:
    """The staged runs in the runs' order."""
    return [
        StagedRun(
            ticket=runs[result.run].ticket,
            collection=runs[result.run].target.collection,
            content=result.content,
            rows=result.rows,
            bytes=result.bytes,
            run=result.run,
            hashes=result.hashes,
        )
        for result in sorted(results, key=lambda result: result.run)
    ]
