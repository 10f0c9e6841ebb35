"""Blocks that tasks have staged, kept by Spark on the disks of the executors that wrote them.

The tasks of a job give back one row with their outcome and one for each piece of a block:

    name                        piece
    ──────────────────────────  ─────────────────────────────────────────
    ""                          the task's outcome, and its small blocks
    "…/run-00003-17.text"       1 MiB
    "…/run-00003-17.text"       1 MiB …

Spark keeps these rows on disk, without their lineage (`localCheckpoint`). So a task that opens a block runs
where it is, or gets its rows over the network, and a lost block stays lost: if Spark computed it again, it
would read other rows. Whoever needs it fails, and the window is read again.

Owns the rows, where each block is, and the jobs on executors whose tasks open blocks. `executor_blocks.py`
owns the handles.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

import pyarrow as pa
from pyspark import StorageLevel, TaskContext
from pyspark.sql import functions

from adapters.spark import outcomes
from adapters.spark.executors import SparkExecutors
from adapters.spark.failures import SPARK_ERRORS, of_executors
from adapters.spark.outcomes import Attempt
from adapters.spark.pools import pool_of, use_pool
from adapters.staging.executor_blocks import (
    ExecutorBlock,
    ExecutorBlocks,
    content_of,
    outbox,
    place_of,
    present,
    remember,
)
from engine.errors import ExecutorsFailed, TidemarkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark import SparkContext
    from pyspark.sql import DataFrame, Row, SparkSession

    from engine.staging.port import BlockStore

Item = TypeVar("Item")
Result = TypeVar("Result")
Work: TypeAlias = "Callable[[Iterator[tuple[str, bytes]], int], Iterator[bytes]]"
"""What is done with the pieces of a partition, of which each has the name of its block."""
_ROWS: Final = pa.schema([("name", pa.string()), ("piece", pa.binary())])
_ROWS_DDL: Final = "name string, piece binary"
_OUTCOME: Final = ""
_LOST: Final = ("Checkpoint block", "BlockNotFoundException", "Failed to fetch block")
"""How Spark says that nobody has a kept partition any more."""
_DISK: Final = StorageLevel(useDisk=True, useMemory=False, useOffHeap=False, deserialized=False)
TURNS: Final = "tidemark-turns"
"""The scheduler's pool for what a turn waits for: it gets the next free slot, ahead of windows being read.

Each job has such a pool beside its own.
"""


@dataclass(frozen=True, slots=True)
class _Keeping(Generic[Result]):
    """A task that gives back its outcome and what it has staged. Goes to the executors."""

    task: Callable[[Iterable[pa.RecordBatch]], Result]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        partition = context.partitionId() if context else 0
        with outbox() as staged:
            outcome = Attempt(self.task)(batches)
            large = [block.name for block in staged.large]
            yield _row(_OUTCOME, pickle.dumps((partition, outcome, staged.small, large)))
            for block in staged.large:
                yield from (_row(block.name, piece) for piece in block.pieces())


def _row(name: str, piece: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"name": [name], "piece": [piece]}, _ROWS)


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
        self._rows, self._context = rows, rows.sparkSession.sparkContext
        self._names: set[str] = set()

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
            self._rows._jdf.queryExecution().logical().rdd().unpersist(False)  # noqa: FBT003, SLF001  there is no public way
        except SPARK_ERRORS:
            return  # Spark has ended, and the rows with it

    def run(self, work: Work, wanted: Mapping[int, set[str]]) -> list[bytes]:
        """Run `work` on the partitions in `wanted`, as a job, with the rows of the blocks wanted of each."""
        names = sorted(set[str]().union(*wanted.values()))
        rows = self._rows.filter(functions.col("name").isin(names)).rdd
        work_there = rows.mapPartitionsWithIndex(_OnPartition(work))
        return list(self._context.runJob(work_there, _as_it_is, sorted(wanted)))


def _as_it_is(results: Iterable[bytes]) -> Iterable[bytes]:
    return results


@dataclass(frozen=True, slots=True)
class _OnPartition:
    """`work` as Spark calls it, with the number of its partition first."""

    work: Work

    def __call__(self, partition: int, rows: Iterable[Row]) -> Iterator[bytes]:
        return self.work(((row["name"], bytes(row["piece"])) for row in rows), partition)


@dataclass(frozen=True, slots=True)
class KeptBlock:
    """The place of a block: a partition of kept rows."""

    rows: KeptRows
    partition: int

    def fetch(self, name: str) -> bytes | None:
        """The content, brought to the driver."""
        context = self.rows._context  # noqa: SLF001  of the same module
        try:
            with _ahead(context):
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
    rows = frame.mapInArrow(_Keeping(task), _ROWS_DDL).localCheckpoint(eager=True, storageLevel=_DISK)
    kept = KeptRows(rows)
    try:
        found = rows.filter(functions.col("name") == _OUTCOME).collect()
        returned = [pickle.loads(row.piece) for row in found]  # noqa: S301  our own tasks wrote it
        results = [outcomes.result(outcome) for _partition, outcome, _small, _large in returned]
    except BaseException:
        kept.drop()
        raise
    for partition, _outcome, small, large in returned:
        remember(small, kept.keeps(partition, large))
    if not any(large for *_others, large in returned):
        kept.drop()
    return results


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


class BlockExecutors:
    """Runs tasks that open blocks: each where its blocks are, or where Spark has brought them."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    def map(self, task: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Run `task` on every item; results in the items' order.

        Raises the task's own TidemarkError, or SourceError if a task or the job fails for any other reason.
        """
        packed = [_packed(item) for item in items]
        found: dict[int, Any] = {}
        try:
            with _ahead(self._context):
                for rows, share in _by_rows(packed).items():
                    found |= self._job(task, items, packed, (rows, share))
        except SPARK_ERRORS as error:
            raise lost_or_failed(error, f"a job of {len(items)} tasks") from error
        return [outcomes.result(found[at]) for at in range(len(items))]

    def _job(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        packed: Sequence[_Packed],
        share: tuple[KeptRows | None, Sequence[int]],
    ) -> dict[int, Any]:
        rows, mine = share
        if rows is None:
            single = [(at, items[at], packed[at].carried()) for at in mine]
            done = self._context.parallelize(single, len(single)).map(_Single(task)).collect()
        else:
            wanted: dict[int, set[str]] = {}
            work: dict[int, list[tuple[int, Item, Mapping[str, bytes]]]] = {}
            for at in mine:
                names, partition = packed[at].at_home()
                wanted.setdefault(partition, set()).update(names)
                work.setdefault(partition, []).append((at, items[at], packed[at].carried()))
            # Pickled once for all tasks: they share what supersedes their rows.
            done = rows.run(_Items(task, pickle.dumps(work)), wanted)
        return dict(map(pickle.loads, done))


class _ahead:  # noqa: N801  it reads as a statement
    """Jobs of this thread get the next free slot until the end of the context."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._before: str | None = None

    def __enter__(self) -> None:
        self._before = pool_of(self._context)
        use_pool(self._context, f"{self._before}-{TURNS}" if self._before else TURNS)

    def __exit__(self, *_error: object) -> None:
        use_pool(self._context, self._before)


@dataclass(frozen=True, slots=True)
class _Single(Generic[Item, Result]):
    """Runs an item whose blocks come with it. Goes to the executors."""

    task: Callable[[Item], Result]

    def __call__(self, given: tuple[int, Item, Mapping[str, bytes]]) -> bytes:
        at, item, carried = given
        with present(carried):
            return pickle.dumps((at, Attempt(self.task)(item)))


@dataclass(frozen=True, slots=True)
class _Items(Generic[Item, Result]):
    """Runs the items of each partition, with the blocks that the partition keeps. Goes to the executors."""

    task: Callable[[Item], Result]
    work: bytes

    def __call__(self, rows: Iterator[tuple[str, bytes]], partition: int) -> Iterator[bytes]:
        pieces: dict[str, list[bytes]] = {}
        for name, piece in rows:
            pieces.setdefault(name, []).append(piece)
        blocks = {name: b"".join(found) for name, found in pieces.items()}
        pieces.clear()
        attempt = _Single(self.task)
        with present(blocks):
            for given in pickle.loads(self.work)[partition]:  # noqa: S301  our own driver wrote it
                yield attempt(given)


@dataclass(frozen=True, slots=True)
class _Packed:
    """The blocks that an item refers to."""

    names: tuple[str, ...]

    @property
    def rows(self) -> KeptRows | None:
        """The rows that keep its first block; None if all its blocks are in the driver."""
        places = self._kept()
        return next(iter(places.values())).rows if places else None

    def _kept(self) -> dict[str, KeptBlock]:
        found = {name: place_of(name) for name in self.names}
        return {name: place for name, place in found.items() if isinstance(place, KeptBlock)}

    def at_home(self) -> tuple[set[str], int]:
        """The blocks that are kept together with the first one, and the partition that keeps them."""
        places = self._kept()
        home = next(iter(places.values()))
        return {name for name, place in places.items() if place == home}, home.partition

    def carried(self) -> dict[str, bytes]:
        """The content of all other blocks, which goes to the task with the item."""
        kept = self._kept()
        home = next(iter(kept.values()), None)
        elsewhere = {name: place.fetch(name) for name, place in kept.items() if place != home}
        here = {name: content_of(name) for name in self.names if name not in kept}
        found = {**here, **elsewhere}
        return {name: bytes(content) for name, content in found.items() if content is not None}


class _Names(pickle.Pickler):
    """Finds the blocks that an object refers to."""

    def __init__(self) -> None:
        super().__init__(self, pickle.HIGHEST_PROTOCOL)
        self.found: list[str] = []

    def write(self, data: bytes | pickle.PickleBuffer) -> int:
        """Drop what is pickled."""
        return memoryview(data).nbytes

    def persistent_id(self, obj: Any) -> None:
        if isinstance(obj, ExecutorBlock):
            self.found.append(obj.name)


def _packed(item: object) -> _Packed:
    names = _Names()
    names.dump(item)
    return _Packed(tuple(dict.fromkeys(names.found)))


def _by_rows(packed: Sequence[_Packed]) -> dict[KeptRows | None, list[int]]:
    found: dict[KeptRows | None, list[int]] = {}
    for at, item in enumerate(packed):
        found.setdefault(item.rows, []).append(at)
    return found


def lost_or_failed(error: Exception, what: str) -> TidemarkError:
    """The error of a failed job: that what was staged is lost, or what Spark says."""
    if any(sign in str(error) for sign in _LOST):
        return ExecutorsFailed(
            "rows that were staged are lost: the executor that kept them has ended",
            place="spark",
            hint="they are read again; if this goes on, look at why executors end",
        )
    return of_executors(error, what)
