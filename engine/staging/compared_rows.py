"""Staged digests, the form of rows that are compared with a copy instead of being sent.

Only the digests of keys and rows are staged, with the merge keys. "Emitting" such a run writes nothing: it
says which rows survive, and with which digests. Rows for a sink of typed columns are staged as they are: only
the copy knows how its own types show a value, so it digests them (`engine/verify/copy.py`, `HoldsRows`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import orjson
import pyarrow as pa

from engine.model import Part
from engine.staging.rows import MERGE_KEY, ROWS, ArrowBlock, survivors
from engine.verify.compared_digests import COLUMNS, DIGEST, SURVIVES, bare_keys, digests_of_rows, key_digests
from engine.verify.event_history import columns_of

if TYPE_CHECKING:
    from engine.snapshot.markers import Markers
    from engine.snapshot.merge import NewerKeys
    from engine.staging.affixes import Affixes
    from engine.staging.port import Block, BlockStore, BlockWriter
    from engine.staging.rows import Survivors

DIGESTS: Final = pa.schema([("key", DIGEST), ("row", DIGEST), MERGE_KEY])
"""The digest of each row's key, and of the row."""
TYPED: Final = ("key", "after", "source", MERGE_KEY.name)
"""The columns of typed events that are staged."""


@dataclass(frozen=True, slots=True)
class ComparedRows:
    """The form of a run in one block."""

    directory: ClassVar[str] = ""

    def begin(self, store: BlockStore, name: str, affixes: Affixes) -> DigestsWriter:  # noqa: ARG002
        """Begin a run. What surrounds rows in their events is not compared."""
        return DigestsWriter(store.create(f"{name}.arrow"))


COMPARED: Final = ComparedRows()


class DigestsWriter:
    """Writes a run. The metadata of its schema has the names of the rows' columns."""

    def __init__(self, block: BlockWriter) -> None:
        self._block = block
        self._batches: ArrowBlock | None = None
        self._typed = False
        self.abandon = block.abandon

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the digests of a batch of STAGED, or typed rows with their merge keys."""
        if not batch.num_rows:
            return
        if "value" not in batch.schema.names:
            self._write_typed(batch.select(TYPED))
            return
        keys, rows = bare_keys(batch.column("key")), batch.column("value")
        arrays = [key_digests(keys), digests_of_rows(keys, rows), batch.column(MERGE_KEY.name)]
        if self._batches is None:
            columns = orjson.dumps(columns_of(rows[0].as_py()))
            self._batches = ArrowBlock(self._block, DIGESTS.with_metadata({COLUMNS: columns}))
        self._batches.write(pa.RecordBatch.from_arrays(arrays, schema=DIGESTS))

    def _write_typed(self, batch: pa.RecordBatch) -> None:
        self._typed = True
        if self._batches is None:
            self._batches = ArrowBlock(self._block, batch.schema)
        self._batches.write(batch)

    def finish(self) -> StagedDigests | StagedTyped:
        """Complete the block."""
        block = (self._batches or ArrowBlock(self._block, DIGESTS)).finish()
        return StagedTyped(block) if self._typed else StagedDigests(block)


@dataclass(frozen=True, slots=True)
class StagedDigests:
    """A run in this form."""

    block: Block

    def emit(self, newer: NewerKeys, marks: Markers, writer: Any, part: int) -> tuple[Part, Survivors]:  # noqa: ARG002
        """Say which rows survive. The part has no events."""
        return Part(part, 0), _compared(self.block, newer)


@dataclass(frozen=True, slots=True)
class StagedTyped:
    """A run of typed rows."""

    block: Block

    def emit(self, newer: NewerKeys, marks: Markers, writer: Any, part: int) -> tuple[Part, Survivors]:  # noqa: ARG002
        """Say which rows survive. The part has no events."""
        return Part(part, 0), _compared(self.block, newer)


def _compared(block: Block, newer: NewerKeys) -> Survivors:
    """All rows of a run, with which of them survive."""
    with block.open(ROWS) as content, pa.ipc.open_stream(content) as stream:
        batches, schema = list(stream), stream.schema
    rows, left = pa.Table.from_batches(batches, schema), survivors(batches, newer)
    survives = pa.repeat(pa.scalar(True), len(rows)) if left.mask is None else left.mask  # noqa: FBT003
    return replace(left, compared=rows.append_column(SURVIVES, survives))
