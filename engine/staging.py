"""READ events between being read and being emitted: Arrow files in the staging directory.

A window's tasks write what they have read here, already encoded, beside each row's merge key. When
the window closes, what was superseded meanwhile is left out and the rest goes to the sink. So no
row passes through the driver, and the log goes on being streamed while a window is read.

What stands around a row in its event's value (source block, schema) is larger than most rows, and the same
for all rows of a run: a file has it once.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from engine.errors import SourceError
from engine.events.batch import EVENTS
from engine.events.envelope import with_mark
from engine.events.text import join
from engine.marks import NO_MARKS, Marks
from engine.merge import KEY_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.merge import Newer
    from engine.model import Staged
    from engine.ports import PartWriter

STAGED = EVENTS.append(pa.field("merge_key", KEY_TYPE))
"""Rows as staged: finished events but for what is around the rows in their values, and their merge keys."""
_AROUND = (b"value_before", b"value_after")
_VALUE = EVENTS.get_field_index("value")
_AT_ONCE_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class Emitted:
    """What became of a staged run: READ events written, and keys dropped for a row that lacks a value."""

    rows: int
    lacking: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Emission:
    """A staged run on its way to the sink, as part `part` of a turn; a value for executors."""

    staged: Staged
    newer: Newer
    part: int
    marks: Marks = NO_MARKS

    def write(self, writer: PartWriter) -> Emitted:
        """Write what survives. Raises SourceError if the staged file is gone."""
        survivors = _Survivors(self)
        writer.write(self.part, survivors if self.marks == NO_MARKS else marked(survivors, self.marks))
        return Emitted(survivors.rows, tuple(survivors.lacking))


EVENTS_WIDTH = len(EVENTS)


class _Survivors:
    """A staged run's batches less what was superseded; counted as they are passed on."""

    def __init__(self, emission: Emission) -> None:
        self._path, self._newer = emission.staged.path, emission.newer
        self.rows = 0
        self.lacking: list[bytes] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        with self._mapped() as source, pa.ipc.open_stream(source) as batches:
            around = [batches.schema.metadata[name].decode() for name in _AROUND]
            # All at once: what supersedes may be far more than a batch, and is hashed every time. The
            # file is mapped, so this holds no rows.
            staged = list(batches)
            keys = pa.chunked_array([batch.column(EVENTS_WIDTH) for batch in staged], KEY_TYPE)
            mask = self._newer.survivors(keys)
            self.lacking = self._newer.dropped_lacking(keys, mask)
            at = 0
            for batch in staged:
                events = batch.select(range(EVENTS_WIDTH))
                if mask is not None:
                    events = events.filter(mask.slice(at, batch.num_rows).combine_chunks())
                at += batch.num_rows
                self.rows += events.num_rows
                yield from _completed(events, *around)

    def _mapped(self) -> pa.MemoryMappedFile:
        try:
            return pa.memory_map(self._path)
        except FileNotFoundError as error:
            raise SourceError(
                "rows that were staged are gone",
                place=self._path,
                hint="driver and executors must share tidemark.staging.dir, and nobody else may clear it",
            ) from error


def _completed(events: pa.RecordBatch, before: str, after: str) -> Iterator[pa.RecordBatch]:
    """The events with these texts around their rows; few bytes at once, which stay in a processor's cache."""
    if not events.num_rows:
        return
    row_bytes = len(before.encode()) + len(after.encode()) + events.nbytes / events.num_rows
    rows = max(1, int(_AT_ONCE_BYTES / row_bytes))
    for start in range(0, events.num_rows, rows):
        some = events.slice(start, rows)
        values = join([before, some.column(_VALUE), after], some.num_rows)
        yield some.set_column(_VALUE, EVENTS.field(_VALUE), values)


def marked(batches: Iterable[pa.RecordBatch], marks: Marks) -> Iterator[pa.RecordBatch]:
    """The batches with marks on the first row and on the last; those without rows are left out."""
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
        yield _with_mark(held, 0, Marks(first, marks.last).single)
    else:
        yield _with_mark(_with_mark(held, 0, first), held.num_rows - 1, marks.last)


def _with_mark(batch: pa.RecordBatch, row: int, mark: str | None) -> pa.RecordBatch:
    if mark is None:
        return batch
    values = batch.column(_VALUE)
    value = pa.array([with_mark(values[row].as_py(), mark)], values.type)
    changed = pa.concat_arrays([values.slice(0, row), value, values.slice(row + 1)])
    return batch.set_column(_VALUE, EVENTS.field(_VALUE), changed)


@contextmanager
def staging_file(path: str, around: tuple[str, str]) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Open a staged run for writing; gives the function that takes its batches.

    `around` is what stands before and behind each row, in JSON text, in the value that is emitted.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    schema = STAGED.with_metadata({name: text.encode() for name, text in zip(_AROUND, around, strict=True)})
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, schema) as stream:
        yield stream.write_batch


def clear(directory: str) -> None:
    """Remove what was staged under a directory, if anything was."""
    shutil.rmtree(directory, ignore_errors=True)
