"""From the staging directory to the sink: what was superseded meanwhile is left out of a run.

Owns both ways: staged events are completed and written; rendered texts are handed over as they are. A
sink takes their file by its name, so that a turn waits for no row of it. Each file is compared with its
checksum before it is mapped, and one that is handed over by its name with its size.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import SourceError
from engine.events.batch import EVENTS
from engine.events.record.envelope import with_mark
from engine.events.values.text import join
from engine.snapshot.markers import NO_MARKERS, Markers
from engine.snapshot.merge_key import KEY_TYPE
from engine.staging.checksum import checksum_of
from engine.staging.files import sink_errors
from engine.staging.staged_rows import AROUND, RENDERED, few, texts_beside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.events.values.text import Ints
    from engine.model import Checksum, Part, Staged
    from engine.ports import PartWriter, TextWriter
    from engine.snapshot.merge import Newer

_VALUE = EVENTS.get_field_index("value")
_BLANKED, _BLANKED_BYTES = 1 / 8, 64 << 10
"""The share of a file that may become blanks, and so many side by side; else what survives is copied."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """What became of a staged run: the part written, and keys dropped for a row that lacks a value."""

    part: Part
    lacking: tuple[bytes, ...] = ()

    @property
    def rows(self) -> int:
        """The READ events written."""
        return self.part.events


@dataclass(frozen=True, slots=True)
class Emission:
    """A staged run on its way to the sink, as part `part` of a turn; a value for executors."""

    staged: Staged
    newer: Newer
    part: int
    marks: Markers = NO_MARKERS

    def write(self, writer: PartWriter) -> Emitted:
        """Write what survives. Raises SourceError if the staged file is gone or damaged, else SinkError."""
        with _mapped(self.staged.path, self.staged.arrow) as source, pa.ipc.open_stream(source) as stream:
            # All at once: what supersedes may be far more than a batch, and is hashed every time. The
            # file is mapped, so this holds no rows.
            batches, rendered = list(stream), stream.schema == RENDERED
            metadata = stream.schema.metadata
        keys = pa.chunked_array([batch.column("merge_key") for batch in batches], KEY_TYPE)
        mask = self.newer.survivors(keys)
        rows = len(keys) if mask is None else pc.sum(mask).as_py() or 0
        if rendered:
            part = self._hand_over(cast("TextWriter", writer), batches, mask, rows)
        else:
            around = [metadata[name].decode() for name in AROUND]
            part = writer.write(self.part, marked(_completed(_surviving(batches, mask), *around), self.marks))
        return Emitted(part, tuple(self.newer.dropped_lacking(keys, mask)))

    def _hand_over(
        self, writer: TextWriter, batches: Sequence[pa.RecordBatch], mask: pa.ChunkedArray | None, rows: int
    ) -> Part:
        path, texts = texts_beside(self.staged.path), self.staged.texts
        if rows and self.marks == NO_MARKERS:
            _check_size(path, texts)
            if mask is None:
                return writer.take(self.part, path, rows, texts)
            if blanked := _blanked(path, texts, batches, mask):
                return writer.take(self.part, path, rows, blanked)
        with _mapped(path, texts) as source:
            surviving = marked(_surviving(_texts(source.read_buffer(), batches), mask), self.marks)
            return writer.write_texts(self.part, (batch.column("value") for batch in surviving))


@contextmanager
def _mapped(path: str, checksum: Checksum) -> Iterator[pa.MemoryMappedFile]:
    """A staged file, mapped, if it is what was written."""
    _check_size(path, checksum)
    with _present(path):
        source = pa.memory_map(path)
    with source:
        if checksum_of(source.read_buffer()) != checksum:
            raise _damaged(path, "its checksum is wrong")
        source.seek(0)
        yield source


def _check_size(path: str, checksum: Checksum) -> None:
    with _present(path):
        size = os.stat(path).st_size  # noqa: PTH116  a path's text
    if size != checksum.bytes:
        raise _damaged(path, f"it has {size} bytes of {checksum.bytes}")


def _damaged(path: str, how: str) -> SourceError:
    return SourceError(
        f"rows that were staged are damaged: {how}",
        place=path,
        hint="they are read again; if this goes on, look at the disk of the staging directory",
    )


@contextmanager
def _present(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise SourceError(
            "rows that were staged are gone",
            place=path,
            hint="driver and executors must share tidemark.staging.dir, or the files sink's directory,"
            " and nobody else may clear it",
        ) from error


def _surviving(batches: Iterable[pa.RecordBatch], mask: pa.ChunkedArray | None) -> Iterator[pa.RecordBatch]:
    at = 0
    for batch in batches:
        if mask is None:
            yield batch
        else:
            yield batch.filter(mask.slice(at, batch.num_rows).combine_chunks())
        at += batch.num_rows


def _completed(batches: Iterable[pa.RecordBatch], before: str, after: str) -> Iterator[pa.RecordBatch]:
    """Staged rows as events, with these texts around their values."""
    for batch in batches:
        for some in few(batch.select(range(len(EVENTS))), (before, after)):
            values = join([before, some.column("value"), after], some.num_rows)
            yield some.set_column(_VALUE, EVENTS.field(_VALUE), values)


def _texts(text: pa.Buffer, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The texts of rendered rows, in the batches in which they are known, where they stand."""
    ends, at = _ends(batches), 0
    for batch in batches:
        mine = pa.py_buffer(ends[at : at + batch.num_rows + 1])
        texts = pa.LargeStringArray.from_buffers(batch.num_rows, mine, text)
        at += batch.num_rows
        yield pa.RecordBatch.from_arrays([texts], names=["value"])


def _blanked(
    path: str, texts: Checksum, batches: Sequence[pa.RecordBatch], mask: pa.ChunkedArray
) -> Checksum | None:
    """Blank out the rows that do not survive, where that is little of the file; its checksum then, else None.

    Blanks stand before the next row's text, so there are none at the end. The texts of the others stay as
    they are.
    """
    ends = _ends(batches)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], ~mask.to_numpy(), [False]))))
    gaps = ends[edges].reshape(-1, 2)
    lengths = gaps[:, 1] - gaps[:, 0]
    if lengths.sum() > _BLANKED * ends[-1] or lengths.max() > _BLANKED_BYTES or gaps[-1, 1] == ends[-1]:
        return None
    with _mapped(path, texts):
        pass  # as it was written
    with sink_errors(path), _present(path):
        try:
            file = os.open(path, os.O_RDWR)
        except PermissionError:  # an executor of another user wrote it
            return None
        try:
            for begin, end in gaps.tolist():
                _blank(file, begin, end)
            os.fsync(file)
            with pa.memory_map(path) as blanked:
                return checksum_of(blanked.read_buffer())
        finally:
            os.close(file)


def _blank(file: int, begin: int, end: int) -> None:
    while begin < end:
        begin += os.pwrite(file, b" " * (end - begin), begin)


def _ends(batches: Sequence[pa.RecordBatch]) -> Ints:
    """Where the texts of rendered rows begin, and where the last one ends."""
    return np.cumsum(np.concatenate(([0], *(batch.column("size").to_numpy() for batch in batches))))


def marked(batches: Iterable[pa.RecordBatch], marks: Markers) -> Iterator[pa.RecordBatch]:
    """The batches with marks on the first row's value and on the last's; those without rows are left out."""
    if marks == NO_MARKERS:
        yield from batches
        return
    held: pa.RecordBatch | None = None
    first = marks.first
    for batch in batches:
        if not batch.num_rows:
            continue
        if held is not None:
            yield _with_mark(held, 0, first)
            first = None
        held = batch
    if held is None:
        return
    if held.num_rows == 1:
        yield _with_mark(held, 0, Markers(first, marks.last).single)
    else:
        yield _with_mark(_with_mark(held, 0, first), held.num_rows - 1, marks.last)


def _with_mark(batch: pa.RecordBatch, row: int, mark: str | None) -> pa.RecordBatch:
    if mark is None:
        return batch
    at = batch.schema.get_field_index("value")
    values = batch.column(at)
    value = pa.array([with_mark(values[row].as_py(), mark)], values.type)
    changed = pa.concat_arrays([values.slice(0, row), value, values.slice(row + 1)])
    return batch.set_column(at, batch.schema.field(at), changed)
