"""Staged columns, the form for sinks that take typed events: whole events with their merge keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from engine.events.columns import with_marker
from engine.staging.affixes import by_marker
from engine.staging.rows import MERGE_KEY, ROWS, ArrowBlock, survivors

if TYPE_CHECKING:
    from engine.model import Part
    from engine.ports.sink import PartWriter
    from engine.snapshot.markers import Markers
    from engine.snapshot.merge import NewerKeys
    from engine.staging.affixes import Affixes
    from engine.staging.port import Block, BlockStore, BlockWriter
    from engine.staging.rows import Survivors


@dataclass(frozen=True, slots=True)
class ColumnRows:
    """The form of a run in one block."""

    directory: ClassVar[str] = ""

    def begin(self, store: BlockStore, name: str, affixes: Affixes) -> ColumnWriter:
        """Begin a run."""
        return ColumnWriter(store.create(f"{name}.arrow"), frozenset(affixes.marked))


class ColumnWriter:
    """Writes a run. Its first batch decides its schema. `shown` are the markers that its rows can carry."""

    def __init__(self, block: BlockWriter, shown: frozenset[str]) -> None:
        self._block, self._shown = block, shown
        self._batches: ArrowBlock | None = None
        self.abandon = block.abandon

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch of typed events with merge keys."""
        self._opened(batch.schema).write(batch)

    def finish(self) -> StagedColumns:
        """Complete the block."""
        return StagedColumns(self._opened(pa.schema([MERGE_KEY])).finish(), self._shown)

    def _opened(self, schema: pa.Schema) -> ArrowBlock:
        if self._batches is None:
            self._batches = ArrowBlock(self._block, schema)
        return self._batches


@dataclass(frozen=True, slots=True)
class StagedColumns:
    """A run in this form."""

    block: Block
    shown: frozenset[str]

    def emit(self, newer: NewerKeys, marks: Markers, writer: PartWriter, part: int) -> tuple[Part, Survivors]:
        """Write the surviving rows."""
        with self.block.open(ROWS) as content, pa.ipc.open_stream(content) as stream:
            batches = list(stream)
        left = survivors(batches, newer)
        plain = (batch.drop_columns(MERGE_KEY.name) for batch in left.of(batches))
        events = (
            with_marker(batch, marker) if marker in self.shown else batch
            for batch, marker in by_marker(plain, marks)
        )
        return writer.write(part, events), left
