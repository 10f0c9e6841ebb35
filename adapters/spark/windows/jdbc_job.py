"""A Spark job that reads runs of keys through JDBC and stages their rows.

Every run is a branch of one UNION ALL query, so a task can read one run of a large table or many whole small
ones. Owns the job: its branches, its tasks and its batches. The adapters own the query of a run, how the
server is reached, and what a failure means.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from adapters.spark import kept_blocks, outcomes
from adapters.spark.windows.chunk_job import ReadTask, nothing
from engine.events.values.row_form import RowMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from adapters.spark.windows.chunk_job import RunResult
    from engine.model import Key, Range, Run
    from engine.staging.reads import ReadEvents
    from engine.staging.rows import StagingArea

_FETCH_BYTES = 4 << 20


class Keys(Protocol):
    """Key columns of a table, in SQL."""

    def among(self, keys: Sequence[Key]) -> str:
        """A condition for the rows with exactly these keys."""

    def inside(self, part: Range) -> str:
        """A condition for the keys of a range."""


class KeyedTable(Protocol):
    """A table as a snapshot reads it, as far as all sources agree."""

    @property
    def keyset(self) -> Keys:
        """The key that cuts it into chunks."""

    @property
    def merge(self) -> Keys:
        """The key by which the log identifies its rows."""


TableT = TypeVar("TableT", bound=KeyedTable)


@dataclass(frozen=True, slots=True)
class RunRead(Generic[TableT]):
    """A run and how to read it. `row_bytes` is the estimated size of a row."""

    run: Run
    read: TableT
    events: ReadEvents
    row_bytes: float

    def where(self) -> str:
        """A condition for the keys of the run."""
        run = self.run
        if run.points:
            return self.read.keyset.among(run.points)
        if run.keys:
            return self.read.merge.among(run.keys)
        return self.read.keyset.inside(run.range)


@dataclass(frozen=True, slots=True)
class JdbcQuery:
    """A query for Spark's JDBC source. `properties` hold the login and are never shown."""

    url: str
    text: str
    properties: Mapping[str, str] = field(repr=False)

    def frame(self, spark: SparkSession, tasks: int) -> DataFrame:
        """The rows, which the column `task` distributes over so many tasks."""
        predicates = [f"task = {task}" for task in range(tasks)]
        properties = dict(self.properties)
        return spark.read.jdbc(self.url, f"({self.text}) AS q", predicates=predicates, properties=properties)

    def reach(self, spark: SparkSession, tasks: int) -> None:
        """Run a job without results: it shows that Spark reaches the server, and starts the workers."""
        outcomes.run(self.frame(spark, 1).select("r").repartition(tasks), nothing)


@dataclass(frozen=True, slots=True)
class JdbcJob(Generic[TableT]):
    """Reads runs, by their numbers in the window, in one form into one area, with `most_tasks` at most."""

    reads: Mapping[int, RunRead[TableT]]
    mode: RowMode
    area: StagingArea
    most_tasks: int

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return min(self.most_tasks, len(self.reads))

    def text(self, branch: Callable[[RunRead[TableT], int, int, RowMode], str]) -> str:
        """The query: a `branch` for each run, given its number and its task's.

        A branch has the columns `run` and `task` with these numbers, and `r`, the row as text. A task reads
        the branches that have its number.
        """
        return " UNION ALL ".join(
            branch(read, index, position % self.tasks, self.mode)
            for position, (index, read) in enumerate(self.reads.items())
        )

    def task(self) -> ReadTask:
        """What is done with rows that come with the numbers of their runs."""
        return ReadTask({index: read.events for index, read in self.reads.items()}, self.area, self.mode)

    def run(self, spark: SparkSession, query: JdbcQuery, fetched: int) -> list[RunResult]:
        """Stage the rows of the query, of which `fetched` are fetched at once."""
        conf = spark.conf
        conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(2 * fetched if fetched > 1 else 1))
        # With any other bound Spark recomputes the batch's size at every row.
        conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1))
        alone = tuple(self.reads) if len(self.reads) <= self.most_tasks else ()
        frame = query.frame(spark, self.tasks).select("r", *([] if alone else ["run"]))
        task = replace(self.task(), alone=alone)
        return list(chain.from_iterable(kept_blocks.run(frame, task, self.area.store)))


def widest(reads: Iterable[RunRead[TableT]]) -> float:
    """The estimated size of the largest row, in bytes."""
    return max(read.row_bytes for read in reads)


def fetched_at_once(reads: Iterable[RunRead[TableT]], most: int) -> int:
    """How many rows to fetch at once, by their estimated size."""
    return max(1, min(most, int(_FETCH_BYTES / max(widest(reads), 1.0))))


def read_fast(
    reads: Mapping[int, RunRead[TableT]],
    area: StagingArea,
    exact: RowMode,
    read: Callable[[Mapping[int, RunRead[TableT]], RowMode, StagingArea], list[RunResult]],
) -> list[RunResult]:
    """The results of `read` in FAST form; the runs whose values contain the separator again in `exact`."""
    results = read(reads, RowMode.FAST, area)
    collided = {result.run: reads[result.run] for result in results if result.collided}
    if not collided:
        return results
    results = [result for result in results if not result.collided]
    return results + read(collided, exact, area.within(exact.value))
