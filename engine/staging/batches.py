"""A span's raw entries on their way to executors: batches in a block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from engine.staging.rows import ArrowBlock

if TYPE_CHECKING:
    from engine.staging.port import Block, BlockStore

_ENTRIES = "entries that were staged"


@dataclass(frozen=True, slots=True)
class StagedBatches:
    """The handle of staged batches; goes to the executors."""

    block: Block

    def load(self) -> list[pa.RecordBatch]:
        """The batches, memory-mapped if they are a file. Raises SourceError if gone or damaged."""
        with self.block.open(_ENTRIES) as content, pa.ipc.open_stream(content) as stream:
            return list(stream)

    def remove(self) -> None:
        """Remove them. May be called twice."""
        self.block.remove()


def stage(store: BlockStore, batches: pa.Table | pa.RecordBatch, name: str) -> StagedBatches:
    """Stage batches under a name that nothing else in the store has. Raises SinkError if there is no room."""
    block = ArrowBlock(store.create(name), batches.schema)
    try:
        block.write(batches)
        return StagedBatches(block.finish())
    except BaseException:
        block.abandon()
        raise
