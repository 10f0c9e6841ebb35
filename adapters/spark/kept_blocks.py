"""Blocks that tasks have staged, kept by Spark on the disks of the executors that wrote them.

The tasks of a job give back a row for each piece of a block. Pieces are compressed, because events repeat
themselves, and Spark's JVMs copy, encrypt, write, read and ship each byte:

    name                        size    piece
    ──────────────────────────  ──────  ────────────
    "…/run-00003-17.text"       1 MiB   its LZ4
    "…/run-00003-17.text"       1 MiB   its LZ4 …

A task's outcome, with its small blocks, comes to the driver with the end of the task (`task_reports.py`): a
second job would read all rows again to find it.

Spark keeps these rows on disk, without their lineage (`localCheckpoint`). So a task that opens a block runs
where it is, or gets its rows over the network, and a lost block stays lost: if Spark computed it again, it
would read other rows. Whoever needs it fails, and the window is read again.

Owns the rows, and where each block is. `executor_blocks.py` owns the handles, `block_executors.py` the jobs
whose tasks open blocks.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

import pyarrow as pa
from pyspark import RDD, StorageLevel, TaskContext
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame, functions

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
from engine.errors import ExecutorsFailed, TidemarkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, SparkSession

    from adapters.spark.task_reports import Report
    from engine.staging.port import BlockStore

Item = TypeVar("Item")
Result = TypeVar("Result")
Work: TypeAlias = "Callable[[Iterator[tuple[str, bytes]], int], Iterator[bytes]]"
"""What is done with the pieces of a partition, of which each has the name of its block."""
_ROWS: Final = pa.schema([("name", pa.string()), ("size", pa.int32()), ("piece", pa.binary())])
_SENT: Final = pa.schema([("name", pa.large_string()), ("size", pa.int32()), ("piece", pa.large_binary())])
_AS_MESSAGES: Final = {"maxRecordsPerBatch": "1", "useLargeVarTypes": "true"}
"""How Spark sends the rows to Python: one in each message, of this schema."""
_ROWS_DDL: Final = "name string, size int, piece binary"
_CODEC: Final = "lz4_raw"
_LOST: Final = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
"""Spark's condition where nobody has a kept partition any more."""
_DISK: Final = StorageLevel(useDisk=True, useMemory=False, useOffHeap=False, deserialized=False)


@dataclass(frozen=True, slots=True)
class _KeepingTask(Generic[Result]):
    """A task that reports its outcome and gives back what it has staged. Goes to the executors."""

    task: Callable[[Iterable[pa.RecordBatch]], Result]
    report: Report

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        partition = context.partitionId() if context else 0
        with outbox() as staged:
            outcome = Attempt(self.task)(batches)
            large = [block.name for block in staged.large]
            self.report(pickle.dumps((partition, outcome, staged.small, large)))
            for block in staged.large:
                yield from (_row(block.name, piece) for piece in block.pieces())


def _row(name: str, piece: bytes) -> pa.RecordBatch:
    packed = pa.compress(piece, _CODEC, asbytes=True)
    return pa.RecordBatch.from_pydict({"name": [name], "size": [len(piece)], "piece": [packed]}, _ROWS)


@dataclass(frozen=True, slots=True)
class _Share(Generic[Item, Result]):
    """Runs each of these items as a task of a job without rows. Goes to the executors."""

    task: Callable[[Item], Result]
    items: Sequence[Item]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> list[Result]:
        for _batch in batches:
            pass
        context = TaskContext.get()
        return [self.task(self.items[context.partitionId() if context else 0])]


class KeptRows:
    """The rows of one job, until all their blocks are released."""

    def __init__(self, rows: DataFrame) -> None:
        self.spark, self._rows = rows.sparkSession, rows
        self._names: set[str] = set()
        self._session: SparkSession | None = None

    def keeps(self, partition: int, names: Iterable[str]) -> dict[str, KeptBlock]:
        """The places of blocks that a partition has."""
        found = {name: KeptBlock(self, partition) for name in names}
        self._names |= found.keys()
        return found

    def release(self, name: str) -> None:
        """Let the rows go once none of their blocks is needed."""
        self._names.discard(name)
        if not self._names:
            self.drop()

    def drop(self) -> None:
        """Let the rows go."""
        try:
            self._kept().unpersist(False)  # noqa: FBT003  a JVM object
        except SPARK_ERRORS:
            return  # Spark has ended, and the rows with it

    @property
    def partitions(self) -> int:
        """How many there are, a task's each."""
        return int(self._kept().getNumPartitions())

    def _kept(self) -> Any:
        return self._rows._jdf.queryExecution().logical().rdd()  # noqa: SLF001  there is no public way

    def run(self, work: Work, wanted: Mapping[int, set[str]]) -> list[bytes]:
        """Run `work` on the partitions in `wanted`, as a job, with the rows of the blocks wanted of each."""
        names = sorted(set[str]().union(*wanted.values()))
        messages = self._messages(functions.col("name").isin(names))
        work_there = messages.mapPartitionsWithIndex(_OnPartition(work))
        return list(self.spark.sparkContext.runJob(work_there, _as_it_is, sorted(wanted)))

    def _messages(self, condition: Column) -> RDD[bytes]:
        """The rows that meet a condition, each as a message of Arrow.

        Spark would send rows as pickles, for which its pickler turns each byte into a character. How many
        rows a message has is a setting of the session, which reading windows changes. So they have their own.
        """
        session = self._session = self._session or self.spark.newSession()
        for name, value in _AS_MESSAGES.items():
            session.conf.set(f"spark.sql.execution.arrow.{name}", value)
        # There is no public way.
        inner: Any = session._jsparkSession  # noqa: SLF001
        schema, streams = self._rows._jdf.schema(), False  # noqa: SLF001
        rows = DataFrame(inner.internalCreateDataFrame(self._kept(), schema, streams), session)
        messages = rows.filter(condition)._jdf.toArrowBatchRdd().toJavaRDD()  # noqa: SLF001
        return RDD(messages, self.spark.sparkContext, NoOpSerializer())


def _as_it_is(results: Iterable[bytes]) -> Iterable[bytes]:
    return results


@dataclass(frozen=True, slots=True)
class _OnPartition:
    """`work` as Spark calls it, with the number of its partition first."""

    work: Work

    def __call__(self, partition: int, messages: Iterable[bytes]) -> Iterator[bytes]:
        return self.work(_pieces(messages), partition)


def _pieces(messages: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    for message in messages:
        batch = pa.ipc.read_record_batch(pa.py_buffer(message), _SENT)
        for name, size, packed in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield name, pa.decompress(packed, size, _CODEC, asbytes=True)


@dataclass(frozen=True, slots=True)
class KeptBlock:
    """The place of a block: a partition of kept rows."""

    rows: KeptRows
    partition: int

    def fetch(self, name: str) -> bytes | None:
        """The content, brought to the driver."""
        try:
            with ahead(self.rows.spark):
                return b"".join(self.rows.run(_Fetch(name), {self.partition: {name}}))
        except SPARK_ERRORS as error:
            raise lost_or_failed(error, "fetching rows that were staged") from error

    def release(self, name: str) -> None:
        """The block is not needed any more."""
        self.rows.release(name)


@dataclass(frozen=True, slots=True)
class _Fetch:
    """Gives a block's pieces back as they are."""

    name: str

    def __call__(self, rows: Iterator[tuple[str, bytes]], _partition: int) -> Iterator[bytes]:
        return (piece for name, piece in rows if name == self.name)


def run(
    frame: DataFrame, task: Callable[[Iterable[pa.RecordBatch]], Result], store: BlockStore
) -> list[Result]:
    """Run a task on the rows of every partition, as `outcomes.run`; it stages in this store."""
    if not isinstance(store, ExecutorBlocks):
        return outcomes.run(frame, task)
    with reports(frame.sparkSession.sparkContext) as told:
        rows = frame.mapInArrow(_KeepingTask(task, told.report), _ROWS_DDL)
        kept = KeptRows(rows.localCheckpoint(eager=True, storageLevel=_DISK))
    try:
        returned = latest(told.all, kept.partitions)
        results = [outcomes.result(outcome) for _partition, outcome, _small, _large in returned]
    except BaseException:
        kept.drop()
        raise
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
    frame = spark.range(0, len(items), 1, len(items))
    try:
        return [done for results in run(frame, _Share(task, items), store) for done in results]
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
