"""The chunk reader: tasks read runs of keys at one cluster time, and encode and stage them where they run.

Every task reads its documents as of the window's cluster time (read concern snapshot), so all see the same
state. Capped collections can't be read that way; their documents are read as they are, no older than that
time. Owns the queries and the tasks. The engine decides which runs there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from adapters.mongodb.documents.keys import among, between
from adapters.mongodb.server.collection_probes import concern
from adapters.mongodb.server.questions import as_of, document_reader
from adapters.mongodb.snapshot.conditions import condition_filter
from adapters.spark.executors import SparkExecutors
from adapters.spark.kept_blocks import map_staging
from adapters.spark.windows.chunk_job import attempt
from adapters.spark.windows.window_jobs import WindowJobs
from engine.model import StagedRun
from engine.staging.compared_rows import COMPARED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from adapters.mongodb.events.rows import ReadEvents
    from adapters.mongodb.server.connection import Connection
    from engine.events.values.text import Ints
    from engine.model import Run
    from engine.staging.rows import StagingArea

_READING = "adapters.mongodb.events.rows"
_MOST_MS = 600_000
"""The server's time limit for documents selected by a signal's condition."""


@dataclass(frozen=True, slots=True)
class RunRead:
    """A run and how to read it. `index` is its number in the window.

    Documents of a `loose` run are read as they are, at any time while the window is read.
    """

    index: int
    run: Run
    events: ReadEvents
    loose: bool = False

    def queries(self) -> list[dict[str, Any]]:
        """The find commands, in order. The index scan ends before `upto`, which has a query of its own."""
        run = self.run
        if run.keys or run.points:
            return [self._find(among(run.keys or run.points))]
        if run.after is None and run.upto is None:
            return [self._find({})]
        inner = between(run.after, run.upto, holds_after=run.holds_after)
        found = [{**self._find(inner.pop("filter", {})), **inner}]
        if run.upto is None or run.lacks_upto:
            return found
        return [*found, self._find(among([run.upto]))]

    def _find(self, chosen: dict[str, Any]) -> dict[str, Any]:
        target = self.run.target
        parts = [part for part in (chosen, condition_filter(target)) if part]
        command: dict[str, Any] = {
            "find": target.collection.parts[1],
            "filter": {"$and": parts} if parts else {},
        }
        if target.condition and not target.initial:
            command["maxTimeMS"] = _MOST_MS
        return command


@dataclass(frozen=True, slots=True)
class ReadRuns:
    """The task: read some runs, one after the other. Sent to the executors."""

    connection: Connection
    at: tuple[int, int]
    area: StagingArea
    batch_rows: int

    def __call__(self, reads: Sequence[RunRead]) -> list[tuple[int, StagedRun]]:
        """Stage every run that has rows."""
        staged = [(read.index, self._stage(read)) for read in reads]
        return [(index, staged_run) for index, staged_run in staged if staged_run.rows]

    def _stage(self, read: RunRead) -> StagedRun:
        collection = read.run.target.collection
        form = COMPARED if read.run.target.compared else None
        staging = self.area.run(read.index, read.events.affixes, attempt(), form)
        with staging as run:
            for raw, starts in self._batches(read):
                for batch in read.events.batches(raw, starts):
                    run.write(batch)
        return StagedRun(
            read.run.ticket, collection, run.complete, run.rows, run.bytes, read.index, run.hashes
        )

    def _batches(self, read: RunRead) -> Iterator[tuple[bytes, Ints]]:
        """The server's answers as of the window's cluster time, with the offsets of their documents."""
        wanted = concern(self.at) if read.loose else as_of(self.at)
        reader = document_reader(self.connection)
        collection = read.run.target.collection
        for raw, starts in reader.answers(collection, read.queries(), wanted, self.batch_rows):
            yield raw, np.array(starts, np.int64)


@dataclass(frozen=True, slots=True)
class Reach:
    """A task that only connects and imports what reading needs."""

    connection: Connection

    def __call__(self, _task: int) -> None:
        """Ping the server."""
        import_module(_READING)
        document_reader(self.connection).check()


class ChunkReader:
    """Reads windows with as many Spark tasks as `slots` tells."""

    def __init__(
        self,
        spark: SparkSession,
        connection: Connection,
        area: StagingArea,
        *,
        slots: Callable[[], int],
        batch_rows: int,
    ) -> None:
        self._spark, self.jobs = spark, WindowJobs(spark, area, slots=slots)
        self._connection, self._batch_rows = connection, batch_rows
        self._reached = False

    def reach(self) -> None:
        """Connect from every task, once: fails early if one can't, and starts Spark's workers."""
        if not self._reached:
            SparkExecutors(self._spark).map(Reach(self._connection), range(self.jobs.tasks_of()))
            self._reached = True

    def read(
        self, window_id: str, reads: Sequence[RunRead], at: tuple[int, int], *, most_tasks: int = 0
    ) -> list[StagedRun]:
        """Read all runs as of a cluster time. Returns the staged ones in order. Blocks.

        At most `most_tasks` tasks are used (0: no limit but the reader's own).
        """
        area = self.jobs.begin(window_id)
        task = ReadRuns(self._connection, at, area, self._batch_rows)
        tasks = min(self.jobs.tasks_of(most_tasks), len(reads))
        groups = [list(reads[first::tasks]) for first in range(tasks)]
        results = map_staging(self._spark, task, groups, area.store)
        done = [indexed_run for staged in results for indexed_run in staged]
        return [staged for _index, staged in sorted(done, key=lambda indexed_run: indexed_run[0])]
