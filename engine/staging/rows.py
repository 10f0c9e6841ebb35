"""Staged rows: READ events from reading to emitting.

A window's tasks stage the rows that they read, already encoded and with their merge keys. Emitting leaves out
the superseded rows and gives the rest to the sink. So the rows that Spark reads are not collected in the
driver, and the log is streamed while a window is read.

Owns where a task stages (`StagingArea`) and what all forms have in common: the batches that they are given,
and the merge keys by which rows are left out. The forms are `event_rows.py`, `text_rows.py` and
`column_rows.py`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import InvariantError
from engine.events.batch import EVENTS
from engine.snapshot.merge_key import KEY_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.snapshot.merge import Newer
    from engine.staging.port import Block, BlockStore, BlockWriter, RowForm, RunWriter, StagedRows
    from engine.staging.surroundings import Surroundings

MERGE_KEY: Final = pa.field("merge_key", KEY_TYPE)
STAGED: Final = EVENTS.append(MERGE_KEY)
"""Staged events: complete except for the text around each row's value, plus the merge keys."""
ROWS: Final = "rows that were staged"
_AT_ONCE_BYTES = 2 << 20


@dataclass(slots=True)
class StagingRun:
    """A run that a task stages. The counts are of what was written so far; `bytes` as in `Staged`."""

    writer: RunWriter
    rows: int = 0
    bytes: int = 0
    _content: StagedRows | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch of STAGED."""
        self.writer.write(batch)
        self.rows += batch.num_rows
        self.bytes += batch.nbytes

    @property
    def complete(self) -> StagedRows:
        """The handle of the complete run."""
        if self._content is None:
            raise InvariantError("a run is used before it is complete")
        return self._content

    def finish(self) -> None:
        """Complete the run."""
        self._content = self.writer.finish()


@dataclass(frozen=True, slots=True)
class StagingArea:
    """Where rows are staged, and in which form. Goes to the executors."""

    store: BlockStore
    form: RowForm

    def within(self, name: str) -> StagingArea:
        """The same form in a part of the store."""
        return replace(self, store=self.store.within(name))

    @contextmanager
    def run(self, number: int, around: Surroundings, attempt: int = 0) -> Iterator[StagingRun]:
        """Stage a run, which is complete after the `with` block. Each attempt has a number of its own.

        Raises SinkError if there is no room; the job then waits and reads the window again, so no row is left
        out.
        """
        run = StagingRun(self.form.begin(self.store, f"run-{number:05d}-{attempt}", around))
        try:
            yield run
            run.finish()
        except BaseException:
            run.writer.abandon()
            raise

    def clear(self) -> None:
        """Remove everything staged here."""
        self.store.clear()


class ArrowBlock:
    """A block of batches, or tables, with one schema, as an Arrow stream."""

    def __init__(self, block: BlockWriter, schema: pa.Schema) -> None:
        self._block, self._stream = block, pa.ipc.new_stream(block, schema)
        self.write = self._stream.write
        self.abandon = block.abandon

    def finish(self) -> Block:
        """Complete the block."""
        self._stream.close()
        return self._block.finish()


@dataclass(frozen=True, slots=True)
class Survivors:
    """The rows of a run that newer entries do not supersede; `mask` None: all."""

    mask: pa.ChunkedArray | None
    rows: int
    lacking: list[bytes]

    def of(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The surviving rows of these batches, which are the run's in their order."""
        at = 0
        for batch in batches:
            if self.mask is None:
                yield batch
            else:
                yield batch.filter(self.mask.slice(at, batch.num_rows).combine_chunks())
            at += batch.num_rows


def survivors(batches: Sequence[pa.RecordBatch], newer: Newer) -> Survivors:
    """Which rows survive, by their merge keys.

    All batches are looked up at once: the superseded keys may far outnumber a batch, and every lookup hashes
    them.
    """
    keys = pa.chunked_array([batch.column(MERGE_KEY.name) for batch in batches], KEY_TYPE)
    mask = newer.survivors(keys)
    rows = len(keys) if mask is None else pc.sum(mask).as_py() or 0
    return Survivors(mask, rows, newer.dropped_lacking(keys, mask))


def few(batch: pa.RecordBatch, around: Surroundings) -> Iterator[pa.RecordBatch]:
    """A batch in pieces of about 2 MiB, including the text around each row, to fit the CPU cache."""
    if not batch.num_rows:
        return
    row_bytes = len(around.before.encode()) + len(around.after.encode()) + batch.nbytes / batch.num_rows
    rows = max(1, int(_AT_ONCE_BYTES / row_bytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
