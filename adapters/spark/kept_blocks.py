"""Blocks that tasks have staged, kept by Spark on the disks of the executors that wrote them.

The tasks of a job give back a message for each compressed piece of a block (`pieces.py`):

    name                        size    packed
    ──────────────────────────  ──────  ────────────
    "…/run-00003-17.text"       1 MiB   its LZ4
    "…/run-00003-17.text"       1 MiB   its LZ4 …

A task's outcome, with its small blocks, comes to the driver with the end of the task (`task_reports.py`): a
second job would read all messages again to find it.

To Spark a message is bytes, which it never unpacks. It keeps them on disk, without their lineage
(`localCheckpoint`). So a task that opens a block runs where it is, or gets its messages over the network, and
a lost block stays lost: if Spark computed it again, it would read other rows. Whoever needs it fails, and the
window is read again.

Owns the messages, and where each block is. `executor_blocks.py` owns the handles, `block_executors.py` the
jobs whose tasks open blocks.
"""

from __future__ import annotations

import pickle
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

import pyarrow as pa
from pyspark import RDD, StorageLevel
from pyspark.serializers import NoOpSerializer
from pyspark.sql.pandas.types import to_arrow_schema

from adapters.java_faults import java_faults
from adapters.spark import outcomes
from adapters.spark.exceptions import SPARK_ERRORS
from adapters.spark.executors import SparkExecutors
from adapters.spark.failures import of_executors
from adapters.spark.outcomes import Attempt
from adapters.spark.pools import ahead
from adapters.spark.task_reports import reports
from adapters.staging.executor_blocks import (
    ExecutorBlocks,
    outbox,
    remember,
)
from adapters.staging.pieces import Piece
from engine.errors import ExecutorsFailed, TidemarkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from adapters.spark.task_reports import Report
    from engine.staging.port import BlockStore

Item = TypeVar("Item")
Result = TypeVar("Result")
Work: TypeAlias = "Callable[[Iterator[tuple[str, bytes]], int], Iterator[bytes]]"
"""What is done with the pieces of a partition, of which each has the name of its block."""
_LOST: Final = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
"""Spark's condition where nobody has a kept partition any more."""


@dataclass(frozen=True, slots=True)
class _KeepingTask(Generic[Item, Result]):
    """A task that reports its outcome and gives back what it has staged. Goes to the executors.

    `unpack` makes the items of its partition into what the task takes.
    """

    task: Callable[[Iterable[Item]], Result]
    unpack: Callable[[Iterable[Any]], Iterable[Item]]
    report: Report

    def __call__(self, partition: int, given: Iterable[Any]) -> Iterator[bytes]:
        with outbox() as staged:
            outcome = Attempt(self.task)(self.unpack(given))
            large = [block.name for block in staged.large]
            self.report(pickle.dumps((partition, outcome, staged.small, large)))
            for block in staged.large:
                yield from (pickle.dumps((block.name, *piece)) for piece in block.pieces)
                block.release()


@dataclass(frozen=True, slots=True)
class _Batches:
    """Unpacks batches of Arrow. Goes to the executors."""

    schema: pa.Schema

    def __call__(self, messages: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        return (pa.ipc.read_record_batch(pa.py_buffer(message), self.schema) for message in messages)


@dataclass(frozen=True, slots=True)
class _Share(Generic[Item, Result]):
    """Runs the items of a partition. Goes to the executors."""

    task: Callable[[Item], Result]

    def __call__(self, items: Iterable[Item]) -> list[Result]:
        return [self.task(item) for item in items]


class KeptRows:
    """The messages of one job, until all their blocks are released."""

    def __init__(self, spark: SparkSession, messages: RDD[bytes]) -> None:
        self.spark, self._messages = spark, messages
        self._names: set[str] = set()

    def keeps(self, partition: int, names: Iterable[str]) -> dict[str, KeptBlock]:
        """The places of blocks that a partition has."""
        found = {name: KeptBlock(self, partition) for name in names}
        self._names |= found.keys()
        return found

    def release(self, name: str) -> None:
        """Let the messages go once none of their blocks is needed."""
        self._names.discard(name)
        if not self._names:
            self.drop()

    def drop(self) -> None:
        """Let the messages go."""
        try:
            self._messages.unpersist()
        except SPARK_ERRORS:
            return  # Spark has ended, and the messages with it

    def run(self, work: Work, wanted: Mapping[int, set[str]]) -> list[bytes]:
        """Run `work` on the partitions in `wanted`, as a job, with the pieces of the blocks wanted there."""
        names = frozenset[str]().union(*wanted.values())
        work_there = self._messages.mapPartitionsWithIndex(_OnPartition(work, names))
        return list(self.spark.sparkContext.runJob(work_there, _as_it_is, sorted(wanted)))


def _as_it_is(results: Iterable[bytes]) -> Iterable[bytes]:
    return results


@dataclass(frozen=True, slots=True)
class _OnPartition:
    """`work` as Spark calls it, with the number of its partition first."""

    work: Work
    names: frozenset[str]

    def __call__(self, partition: int, messages: Iterable[bytes]) -> Iterator[bytes]:
        return self.work(self._pieces(messages), partition)

    def _pieces(self, messages: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
        for name, size, packed in map(pickle.loads, messages):
            if name in self.names:
                yield name, Piece(size, packed).content()


@dataclass(frozen=True, slots=True)
class KeptBlock:
    """The place of a block: a partition of kept rows."""

    rows: KeptRows
    partition: int

    def fetch(self, name: str) -> bytes | None:
        """The content, brought to the driver."""
        try:
            with ahead(self.rows.spark):
                return b"".join(self.rows.run(_content, {self.partition: {name}}))
        except SPARK_ERRORS as error:
            raise lost_or_failed(error, "fetching rows that were staged") from error

    def release(self, name: str) -> None:
        """The block is not needed any more."""
        self.rows.release(name)


def _content(pieces: Iterator[tuple[str, bytes]], _partition: int) -> Iterator[bytes]:
    """The pieces as they are."""
    return (piece for _name, piece in pieces)


def run(
    frame: DataFrame, task: Callable[[Iterable[pa.RecordBatch]], Result], store: BlockStore
) -> list[Result]:
    """Run a task on the rows of every partition, as `outcomes.run`; it stages in this store."""
    if not isinstance(store, ExecutorBlocks):
        return outcomes.run(frame, task)
    spark = frame.sparkSession
    large = str(spark.conf.get("spark.sql.execution.arrow.useLargeVarTypes")).strip().lower() == "true"
    schema = to_arrow_schema(frame.schema, prefers_large_types=large)
    # There is no public way.
    batches = frame._jdf.toArrowBatchRdd().toJavaRDD()  # noqa: SLF001
    given: RDD[bytes] = RDD(batches, spark.sparkContext, NoOpSerializer())
    return _keep(spark, given, _Batches(schema), task)


def _keep(
    spark: SparkSession,
    given: RDD[Any],
    unpack: Callable[[Iterable[Any]], Iterable[Item]],
    task: Callable[[Iterable[Item]], Result],
) -> list[Result]:
    """Run a task on every partition, and keep what it stages."""
    with ExitStack() as failing:
        with reports(spark.sparkContext) as told:
            tasks = given.mapPartitionsWithIndex(_KeepingTask(task, unpack, told.report))
            # There is no public way to give bytes back.
            tasks._jrdd_deserializer = NoOpSerializer()  # noqa: SLF001
            # Python knows no lineage of it, either.
            messages: RDD[bytes] = RDD(tasks._jrdd, spark.sparkContext, NoOpSerializer())  # noqa: SLF001
            messages.persist(StorageLevel.DISK_ONLY).localCheckpoint()
            kept = KeptRows(spark, messages)
            failing.callback(kept.drop)
            messages._jrdd.count()  # noqa: SLF001  the public one has Python count
        returned = latest(told.all, given.getNumPartitions())
        results = [outcomes.result(outcome) for _partition, outcome, _small, _large in returned]
        failing.pop_all()
    for partition, _outcome, small, large in returned:
        remember(small, kept.keeps(partition, large))
    if not any(large for *_others, large in returned):
        kept.drop()
    return results


def latest(reports: Iterable[bytes], partitions: int) -> list[tuple[int, Any, dict[str, bytes], list[str]]]:
    """What each partition's last task has reported, in the partitions' order.

    If an executor ends after a task and before the job, Spark runs the task once more for what was kept
    there. It forgets a report that does not come through, so all must be there. Raises ExecutorsFailed.
    """
    found = {report[0]: report for report in map(pickle.loads, reports)}
    if len(found) != partitions:
        raise ExecutorsFailed(
            f"{partitions - len(found)} of {partitions} tasks have not reported what they staged",
            where="spark",
        )
    return [found[partition] for partition in sorted(found)]


def map_staging(
    spark: SparkSession, task: Callable[[Item], Result], items: Sequence[Item], store: BlockStore
) -> list[Result]:
    """Run a task on every item, as `SparkExecutors.map`; it stages in this store."""
    if not isinstance(store, ExecutorBlocks) or not items:
        return SparkExecutors(spark).map(task, items)
    given = spark.sparkContext.parallelize(items, len(items))
    try:
        return [done for results in _keep(spark, given, iter, _Share(task)) for done in results]
    except SPARK_ERRORS as error:
        raise of_executors(error, f"a job of {len(items)} tasks") from error


def lost_or_failed(error: Exception, what: str) -> TidemarkError:
    """The error of a failed job: that what was staged is lost, or what Spark says."""
    if any(fault.condition == _LOST for fault in java_faults(error)):
        return ExecutorsFailed(
            "rows that were staged are lost: the executor that kept them has ended",
            where="spark",
            hint="they are read again; if this recurs, look at why executors end",
        )
    return of_executors(error, what)
