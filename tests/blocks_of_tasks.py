"""Blocks that Spark's tasks have written, as a store that the driver's code can write to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adapters.spark.kept_blocks import map_staging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from adapters.staging.executor_blocks import ExecutorBlock, ExecutorBlocks


@dataclass(frozen=True)
class BlocksOfTasks:
    """Every block is written by a task of its own, and stays with the executor that ran it."""

    spark: SparkSession
    store: ExecutorBlocks

    def within(self, name: str) -> BlocksOfTasks:
        return replace(self, store=self.store.within(name))

    def create(self, name: str) -> _Writer:
        return _Writer(self, name)

    def create_file(self, name: str, mode: int | None) -> _Writer:  # noqa: ARG002  there are no files
        return self.create(name)

    def clear(self) -> None:
        self.store.clear()


class _Writer:
    def __init__(self, blocks: BlocksOfTasks, name: str) -> None:
        self._blocks, self._name = blocks, name
        self._pieces: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | memoryview) -> int:
        self._pieces.append(bytes(data))
        return len(self._pieces[-1])

    def flush(self) -> None:
        pass

    def finish(self) -> ExecutorBlock:
        self.closed = True
        store = self._blocks.store
        (block,) = map_staging(self._blocks.spark, _Write(store, self._name), [b"".join(self._pieces)], store)
        return block

    def abandon(self) -> None:
        self.closed = True


@dataclass(frozen=True)
class _Write:
    """The task."""

    store: ExecutorBlocks
    name: str

    def __call__(self, content: bytes) -> ExecutorBlock:
        block = self.store.create(self.name)
        block.write(content)
        return block.finish()
