"""Emitting staged runs: from the staging directory to the sink, without the superseded rows.

A run is staged in one of two forms (`engine.staging.staged_rows`). Staged events are completed, filtered and
written through the sink's writer. Rendered texts are finished already, so the sink takes their file by name
(the files sink links it) and the turn does not wait for their rows.

Blanking removes superseded rows from a rendered file. Their bytes are overwritten in place with spaces (`_`):

    staged          {"id":1,…}⏎{"id":2,…}⏎{"id":3,…}⏎
    2 superseded    {"id":1,…}⏎___________{"id":3,…}⏎

It is correct because:

- A sink with rendered events allows blanks before an event, and the blanks end up before the next row's
  text. If the last row is superseded there is no next row, so the file is copied without it instead.
- No byte moves. The file keeps its size, and the other rows keep their offsets.
- The file is verified against its checksum first, then changed, forced to disk, and only then given to the
  sink. If the turn fails, the window is given up and its rows are read again, so a half-blanked file is
  never used.

Blanking pays off only for few rows. The survivors are copied instead if the blanks exceed 1/8 of the file or
64 KiB in one place, if a row needs a snapshot marker, or if the file can't be opened for writing.

Each file is verified before it is mapped: its size, then its checksum. A file that is handed over unchanged
by name is checked by its size only.
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
"""The most that may be blanked: a share of the file, and bytes in one place."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """The result of an emission: the part written, and keys dropped for entries that lack a value."""

    part: Part
    lacking: tuple[bytes, ...] = ()

    @property
    def rows(self) -> int:
        """How many READ events were written."""
        return self.part.events


@dataclass(frozen=True, slots=True)
class Emission:
    """A staged run to be written as part `part` of a turn. Goes to the executors."""

    staged: Staged
    newer: Newer
    part: int
    marks: Markers = NO_MARKERS

    def write(self, writer: PartWriter) -> Emitted:
        """Write the survivors. Raises SourceError if the staged file is gone or damaged, else SinkError."""
        with _mapped(self.staged.path, self.staged.arrow) as source, pa.ipc.open_stream(source) as stream:
            # Filter all batches at once: the superseded keys may far outnumber a batch and are hashed for
            # every lookup. The file is mapped, so the list holds no rows in memory.
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
    """Map a staged file, after verifying its size and checksum."""
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
    """Complete staged rows to events: put these texts around their values."""
    for batch in batches:
        for some in few(batch.select(range(len(EVENTS))), (before, after)):
            values = join([before, some.column("value"), after], some.num_rows)
            yield some.set_column(_VALUE, EVENTS.field(_VALUE), values)


def _texts(text: pa.Buffer, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The texts of rendered rows, batched like their merge keys and not copied."""
    ends, at = _ends(batches), 0
    for batch in batches:
        mine = pa.py_buffer(ends[at : at + batch.num_rows + 1])
        texts = pa.LargeStringArray.from_buffers(batch.num_rows, mine, text)
        at += batch.num_rows
        yield pa.RecordBatch.from_arrays([texts], names=["value"])


def _blanked(
    path: str, texts: Checksum, batches: Sequence[pa.RecordBatch], mask: pa.ChunkedArray
) -> Checksum | None:
    """Blank the superseded rows in place and return the new checksum, or None if the file must be copied.

    See the top of this module.
    """
    ends = _ends(batches)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], ~mask.to_numpy(), [False]))))
    gaps = ends[edges].reshape(-1, 2)
    lengths = gaps[:, 1] - gaps[:, 0]
    if lengths.sum() > _BLANKED * ends[-1] or lengths.max() > _BLANKED_BYTES or gaps[-1, 1] == ends[-1]:
        return None
    with _mapped(path, texts):
        pass  # verified
    with sink_errors(path), _present(path):
        try:
            file = os.open(path, os.O_RDWR)
        except PermissionError:  # written by an executor that runs as another user
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
    """The offset at which each rendered text begins, and the end of the last one."""
    return np.cumsum(np.concatenate(([0], *(batch.column("size").to_numpy() for batch in batches))))


def marked(batches: Iterable[pa.RecordBatch], marks: Markers) -> Iterator[pa.RecordBatch]:
    """Put marks on the first and the last row's value. Empty batches are left out if there are marks."""
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
