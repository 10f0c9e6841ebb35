"""Staged rows: READ events from reading to emitting.

A window's tasks stage the rows that they read, already encoded and with their merge keys. Emitting leaves out
the superseded rows and gives the rest to the sink. So the rows that Spark reads are not collected in the
driver, and the log is streamed while a window is read.

Owns where a task stages (`StagingArea`) and what all forms have in common: the batches that they are given,
the merge keys by which rows are left out, and the digests of rows for a certificate. The forms are
`event_rows.py`, `text_rows.py` and `column_rows.py`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import InvariantError
from engine.events.batch import EVENTS
from engine.snapshot.key_hashes import KeyHashing
from engine.snapshot.merge_key import KEY_TYPE
from engine.staging.port import TellsKeys
from engine.verify.row_digest import digest_sum, row_digests

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.model import Part
    from engine.snapshot.key_hashes import KeyHashes
    from engine.snapshot.markers import Markers
    from engine.snapshot.merge import NewerKeys
    from engine.staging.affixes import Affixes
    from engine.staging.port import Block, BlockStore, BlockWriter, RowForm, RunWriter, StagedRows

MERGE_KEY: Final = pa.field("merge_key", KEY_TYPE)
STAGED: Final = EVENTS.append(MERGE_KEY)
"""Staged events: complete except for the text around each row's value, plus the merge keys."""
ROWS: Final = "rows that were staged"
_AT_ONCE_BYTES = 2 << 20


@dataclass(slots=True)
class StagingRun:
    """A run that a task stages. The counts are of what was written so far; `bytes` as in `StagedRun`.

    With `digests` the rows' digests are staged, too. With `hashing` their merge keys have hashes.
    """

    writer: RunWriter
    digests: DigestWriter | None = None
    hashing: KeyHashing | None = None
    rows: int = 0
    bytes: int = 0
    _content: StagedRows | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch of STAGED."""
        self.writer.write(batch)
        if self.digests is not None:
            self.digests.write(batch)
        if self.hashing is not None:
            self.hashing.add(batch.column(MERGE_KEY.name))
        self.rows += batch.num_rows
        self.bytes += batch.nbytes

    @property
    def complete(self) -> StagedRows:
        """The handle of the complete run."""
        if self._content is None:
            raise InvariantError("a run is used before it is complete")
        return self._content

    @property
    def hashes(self) -> KeyHashes | None:
        """The hashes of the merge keys of what was written so far."""
        return None if self.hashing is None else self.hashing.all

    def finish(self) -> None:
        """Complete the run."""
        digests = self.digests.finish() if self.digests is not None else None
        content = self.writer.finish()
        self._content = content if digests is None else DigestedRows(content, digests)

    def abandon(self) -> None:
        """Give the run up, unless it is complete."""
        self.writer.abandon()
        if self.digests is not None:
            self.digests.abandon()


class DigestWriter:
    """Writes the digests of a run's rows into a block, one after another.

    Typed events have no texts, so there are no digests of them.
    """

    def __init__(self, block: BlockWriter, seed: int) -> None:
        self._block, self._seed, self._typed = block, seed, False
        self.abandon = block.abandon

    def write(self, batch: pa.RecordBatch) -> None:
        """Add the digests of a batch of STAGED."""
        if batch.schema.names == STAGED.names and batch.schema.types == STAGED.types:
            self._block.write(row_digests(batch.column("key"), batch.column("value"), self._seed))
        else:
            self._typed = True

    def finish(self) -> Block | None:
        """Complete the block; None if the rows have no digests."""
        if self._typed:
            self._block.abandon()
            return None
        return self._block.finish()


@dataclass(frozen=True, slots=True)
class DigestedRows:
    """A staged run with the digests of its rows."""

    rows: StagedRows
    digests: Block

    def emit(self, newer: NewerKeys, marks: Markers, writer: Any, part: int) -> tuple[Part, Survivors]:
        """Write the surviving rows, and add up their digests."""
        written, left = self.rows.emit(newer, marks, writer, part)
        survives = None if left.mask is None else left.mask.to_numpy()
        with self.digests.open(ROWS) as content:
            return written, replace(left, digest_sum=digest_sum(content, survives))

    def merge_keys(self) -> pa.ChunkedArray | None:
        """The rows' merge keys, if they tell them."""
        return self.rows.merge_keys() if isinstance(self.rows, TellsKeys) else None


@dataclass(frozen=True, slots=True)
class StagingArea:
    """Where rows are staged, in which form, and under which seed they get digests. Goes to the executors.

    With `hashes` a run tells the hashes of its merge keys, since the driver may not have the rows.
    """

    store: BlockStore
    form: RowForm
    seed: int | None = None
    hashes: bool = False

    def within(self, name: str) -> StagingArea:
        """The same form in a part of the store."""
        return replace(self, store=self.store.within(name))

    @contextmanager
    def run(
        self, number: int, affixes: Affixes, attempt: int = 0, form: RowForm | None = None
    ) -> Iterator[StagingRun]:
        """Stage a run, which is complete after the `with` block. Each attempt has a number of its own.

        A `form` of its own is for rows that don't go to the sink; they get no digests for a certificate, and
        no hashes.

        Raises SinkError if there is no room; the job then waits and reads the window again, so no row is left
        out.
        """
        name = f"run-{number:05d}-{attempt}"
        run = StagingRun((form or self.form).begin(self.store, name, affixes))
        if self.hashes and form is None:
            run.hashing = KeyHashing()
        try:
            if self.seed is not None and form is None:
                run.digests = DigestWriter(self.store.create(f"{name}.digests"), self.seed)
            yield run
            run.finish()
        except BaseException:
            run.abandon()
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
    """The rows of a run that newer entries do not supersede; `mask` None: all.

    `lacking` are the keys dropped for entries that lack a value. `digest_sum` adds up the digests of the
    surviving rows; None if they have none. `compared` is what is known of rows that are compared instead of
    being sent (`compared_rows.py`).
    """

    mask: pa.ChunkedArray | None
    rows: int
    lacking: list[bytes]
    digest_sum: int | None = None
    compared: pa.Table | None = None

    def of(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The surviving rows of these batches, which are the run's in their order."""
        at = 0
        for batch in batches:
            if self.mask is None:
                yield batch
            else:
                yield batch.filter(self.mask.slice(at, batch.num_rows).combine_chunks())
            at += batch.num_rows


def survivors(batches: Sequence[pa.RecordBatch], newer: NewerKeys) -> Survivors:
    """Which rows survive, by their merge keys.

    All batches are looked up at once: the superseded keys may far outnumber a batch, and every lookup hashes
    them.
    """
    keys = pa.chunked_array([batch.column(MERGE_KEY.name) for batch in batches], KEY_TYPE)
    mask = newer.survivors(keys)
    rows = len(keys) if mask is None else pc.sum(mask).as_py() or 0
    return Survivors(mask, rows, newer.dropped_lacking(keys, mask))


def in_pieces(batch: pa.RecordBatch, affixes: Affixes) -> Iterator[pa.RecordBatch]:
    """A batch in pieces of about 2 MiB, including the text around each row, to fit the CPU cache."""
    if not batch.num_rows:
        return
    row_bytes = len(affixes.before.encode()) + len(affixes.after.encode()) + batch.nbytes / batch.num_rows
    rows = max(1, int(_AT_ONCE_BYTES / row_bytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
