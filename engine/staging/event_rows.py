"""Staged events, the form for sinks that take events: rows without the text that surrounds them.

That text is larger than most rows and the same for the whole run, so it is stored once. Emitting filters the
superseded rows out, completes the others and writes them through the sink's writer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from engine.events.batch import EVENTS
from engine.events.values.text import join
from engine.snapshot.merge_key import KEY_TYPE
from engine.staging.affixes import Affixes, by_marker
from engine.staging.rows import MERGE_KEY, ROWS, STAGED, ArrowBlock, in_pieces, survivors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.model import Part
    from engine.ports.sink import PartWriter
    from engine.snapshot.markers import Marker, Markers
    from engine.snapshot.merge import NewerKeys
    from engine.staging.port import Block, BlockStore
    from engine.staging.rows import Survivors

_VALUE = EVENTS.get_field_index("value")


@dataclass(frozen=True, slots=True)
class EventRows:
    """The form of a run in one block, whose metadata has the surrounding text."""

    directory: ClassVar[str] = ""

    def begin(self, store: BlockStore, name: str, affixes: Affixes) -> EventWriter:
        """Begin a run."""
        return EventWriter(ArrowBlock(store.create(f"{name}.arrow"), affixes.on(STAGED)))


class EventWriter:
    """Writes a run."""

    def __init__(self, block: ArrowBlock) -> None:
        self._block = block
        self.write, self.abandon = block.write, block.abandon

    def finish(self) -> StagedEvents:
        """Complete the block."""
        return StagedEvents(self._block.finish())


@dataclass(frozen=True, slots=True)
class StagedEvents:
    """A run in this form."""

    block: Block

    def emit(self, newer: NewerKeys, marks: Markers, writer: PartWriter, part: int) -> tuple[Part, Survivors]:
        """Complete the surviving rows to events and write them."""
        with self.block.open(ROWS) as content, pa.ipc.open_stream(content) as stream:
            # Mapped where it is a file, so the list holds no rows in memory.
            batches, affixes = list(stream), Affixes.of(stream.schema)
        left = survivors(batches, newer)
        marked = by_marker(left.of(batches), marks)
        events = (event for batch, marker in marked for event in _completed(batch, affixes, marker))
        return writer.write(part, events), left

    def merge_keys(self) -> pa.ChunkedArray | None:
        """The merge keys, if the block is here."""
        if not self.block.is_here:
            return None
        with self.block.open(ROWS) as content, pa.ipc.open_stream(content) as stream:
            return pa.chunked_array((batch.column(MERGE_KEY.name) for batch in stream), KEY_TYPE)


def _completed(batch: pa.RecordBatch, affixes: Affixes, marker: Marker | None) -> Iterator[pa.RecordBatch]:
    """The events of staged rows, all of which carry this marker."""
    for some in in_pieces(batch.select(range(len(EVENTS))), affixes):
        values = join([affixes.before, some.column("value"), affixes.behind(marker)], some.num_rows)
        yield some.set_column(_VALUE, EVENTS.field(_VALUE), values)
