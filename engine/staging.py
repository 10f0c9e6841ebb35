"""READ events between being read and being emitted: files in the staging directory.

A window's tasks write what they have read here, already encoded, beside each row's merge key. When
the window closes, what was superseded meanwhile is left out and the rest goes to the sink. So no
row passes through the driver, and the log goes on being streamed while a window is read.

Rows are staged in one of two forms, each with an Arrow file, at the path that a run is known by:

- events less what stands around a row in its value (source block, schema), which is larger than most rows
  and the same for all rows of a run: the file has it once, in its metadata;
- for a sink that renders events as text, that text, in a file beside it: all that is left to be done when
  the window closes is to hand that file over. The Arrow file has merge keys and the sizes of the texts.
"""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from engine.events.batch import EVENTS
from engine.events.text import text_parts
from engine.merge import KEY_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from io import FileIO
    from typing import Self

    from engine.events.text import Bytes
    from engine.ports import Render

_MERGE_KEY: Final = pa.field("merge_key", KEY_TYPE)
STAGED: Final = EVENTS.append(_MERGE_KEY)
"""Rows as staged: finished events but for what is around the rows in their values, and their merge keys."""
RENDERED: Final = pa.schema([_MERGE_KEY, ("size", pa.int64())])
"""What is beside rendered rows: the size of each one's text, in bytes."""
AROUND: Final = (b"value_before", b"value_after")
"""The metadata of STAGED files: the text before and behind each row in its event's value."""
_AT_ONCE_BYTES = 2 << 20
_FORCED_BYTES = 1 << 20
"""Little at once, since whoever else forces something to the same disk waits for it."""


@dataclass(frozen=True, slots=True)
class StagingArea:
    """Where rows are staged, and how their events are rendered, if they are; goes to the executors."""

    directory: str
    render: Render | None = None

    def within(self, name: str) -> StagingArea:
        """A directory of this one."""
        return replace(self, directory=f"{self.directory}/{name}")

    def path(self, run: int, attempt: int = 0) -> str:
        """Where a run's rows are staged."""
        return f"{self.directory}/run-{run:05d}-{attempt}.arrow"

    @contextmanager
    def file(self, path: str, around: tuple[str, str]) -> Iterator[Callable[[pa.RecordBatch], None]]:
        """Open a run for writing; gives the function that takes its batches, of STAGED.

        `around` is what stands before and behind each row, in JSON text, in the value that is emitted.
        """
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as open_files:
            if self.render is None:
                values = (text.encode() for text in around)
                schema = STAGED.with_metadata(dict(zip(AROUND, values, strict=True)))
                yield _arrow(open_files, path, schema).write_batch
            else:
                texts = open_files.enter_context(_Texts(texts_beside(path)))
                yield _Rendered(self.render, around, texts, _arrow(open_files, path, RENDERED)).write


def _arrow(files: ExitStack, path: str, schema: pa.Schema) -> pa.RecordBatchStreamWriter:
    sink = files.enter_context(pa.OSFile(path, "wb"))
    return files.enter_context(pa.ipc.new_stream(sink, schema))


@dataclass(frozen=True, slots=True)
class _Rendered:
    """Writes rows' events as text, and what must be known of each."""

    render: Render
    around: tuple[str, str]
    texts: _Texts
    known: pa.RecordBatchStreamWriter

    def write(self, batch: pa.RecordBatch) -> None:
        """Take a batch of STAGED."""
        for some in few(batch, self.around):
            ends, data = text_parts(self.render(some.select(range(len(EVENTS))), self.around))
            self.texts.write(data[ends[0] : ends[-1]])
            merge_keys, sizes = some.column(len(EVENTS)), pa.array(np.diff(ends))
            self.known.write_batch(pa.RecordBatch.from_arrays([merge_keys, sizes], schema=RENDERED))


class _Texts:
    """A file that is forced to disk as it grows, beside whoever writes it, and whole at its end."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("wb", buffering=0)  # noqa: SIM115  this is a context manager itself
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tidemark-force")
        self._forcing: Future[None] | None = None
        self._unforced = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        with self._file, self._pool:
            if self._forcing is not None:
                self._forcing.result()
            os.fsync(self._file.fileno())

    def write(self, text: Bytes) -> None:
        """Write it all."""
        write_all(self._file, text.data)
        self._unforced += len(text)
        if self._unforced >= _FORCED_BYTES and (self._forcing is None or self._forcing.done()):
            self._unforced = 0
            self._forcing = self._pool.submit(os.fsync, self._file.fileno())


def write_all(file: FileIO, text: memoryview) -> int:
    """Write all of a text, of which the kernel takes 2 GiB at once at most; gives its size."""
    written = 0
    while written < len(text):
        written += file.write(text[written:])
    return written


def few(batch: pa.RecordBatch, around: tuple[str, str]) -> Iterator[pa.RecordBatch]:
    """A batch in pieces of as many rows as make few bytes with these texts around: what a cache holds."""
    if not batch.num_rows:
        return
    row_bytes = sum(len(text.encode()) for text in around) + batch.nbytes / batch.num_rows
    rows = max(1, int(_AT_ONCE_BYTES / row_bytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def texts_beside(path: str) -> str:
    """Where the texts of rendered rows are, of a run staged at this path."""
    return f"{path.removesuffix('.arrow')}.text"


def clear(directory: str) -> None:
    """Remove what was staged under a directory, if anything was."""
    shutil.rmtree(directory, ignore_errors=True)
