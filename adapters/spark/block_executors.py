"""Runs tasks that open blocks where the blocks are kept."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from adapters.spark import outcomes
from adapters.spark.exceptions import SPARK_ERRORS
from adapters.spark.kept_blocks import Item, KeptBlock, KeptRows, Result, lost_or_failed
from adapters.spark.outcomes import Attempt
from adapters.spark.pools import ahead, described
from adapters.staging.executor_blocks import (
    ExecutorBlock,
    content_of,
    place_of,
    present,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession


class BlockExecutors:
    """Runs tasks that open blocks: each where its blocks are, or where Spark has brought them.

    `what` describes its jobs to Spark.
    """

    def __init__(self, spark: SparkSession, what: str = "") -> None:
        self._spark, self._what = spark, what

    def map(self, task: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Run `task` on every item; results in the items' order.

        Raises the task's own TidemarkError, or SourceError if a task or the job fails for any other reason.
        """
        packed = [_packed(item) for item in items]
        found: dict[int, Any] = {}
        try:
            with ahead(self._spark), described(self._spark.sparkContext, self._what):
                for rows, share in _by_rows(packed).items():
                    found |= self._job(task, items, packed, (rows, share))
        except SPARK_ERRORS as error:
            raise lost_or_failed(error, f"a job of {len(items)} tasks") from error
        return [outcomes.result(found[at]) for at in range(len(items))]

    def _job(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        packed: Sequence[_PackedBlocks],
        share: tuple[KeptRows | None, Sequence[int]],
    ) -> dict[int, Any]:
        rows, mine = share
        if rows is None:
            single = [(at, items[at], packed[at].carried()) for at in mine]
            done = self._spark.sparkContext.parallelize(single, len(single)).map(_Single(task)).collect()
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
class _PackedBlocks:
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


def _packed(item: object) -> _PackedBlocks:
    names = _Names()
    names.dump(item)
    return _PackedBlocks(tuple(dict.fromkeys(names.found)))


def _by_rows(packed: Sequence[_PackedBlocks]) -> dict[KeptRows | None, list[int]]:
    found: dict[KeptRows | None, list[int]] = {}
    for at, item in enumerate(packed):
        found.setdefault(item.rows, []).append(at)
    return found
