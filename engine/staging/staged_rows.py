"""READ events between being read and being emitted: files in the staging directory.

A window's tasks write what they have read here, already encoded, beside each row's merge key. When
the window closes, what was superseded meanwhile is left out and the rest goes to the sink. So no
row passes through the driver, and the log goes on being streamed while a window is read.

Each file's checksum is taken while it is written, and travels with what is known of the run; see
`engine.staging.checksum`.

Rows are staged in one of two forms, each with an Arrow file, at the path that a run is known by:

- events less what stands around a row in its value (source block, schema), which is larger than most rows
  and the same for all rows of a run: the file has it once, in its metadata;
- for a sink that takes rendered events, their texts, in a file beside it: all that is left to be done when
  the window closes is to hand that file over. The Arrow file has the merge keys and the texts' sizes.
"""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa

from engine.events.batch import EVENTS
from engine.events.values.text import text_parts
from engine.model import NO_FILE, Checksum
from engine.snapshot.merge_key import KEY_TYPE
from engine.staging.checksum import PRIVATE, ChecksumFile
from engine.staging.files import sink_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

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
    """Where rows are staged, and how their events are rendered, if they are; goes to the executors.

    `mode` is that of the files of texts, None: as the umask says. All others are their owner's alone.
    """

    directory: str
    render: Render | None = None
    mode: int | None = PRIVATE

    def within(self, name: str) -> StagingArea:
        """A directory of this one."""
        return replace(self, directory=f"{self.directory}/{name}")

    def path(self, run: int, attempt: int = 0) -> str:
        """Where a run's rows are staged."""
        return f"{self.directory}/run-{run:05d}-{attempt}.arrow"

    @contextmanager
    def file(self, path: str, around: tuple[str, str]) -> Iterator[RunFile]:
        """Open a run for writing, which tells its checksums once this has ended.

        `around` is what stands before and behind each row, in JSON text, in the value that is emitted.
        Raises SinkError where there is no place to write, which is waited for: no row is left out for it.
        """
        with sink_errors(path):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            if self.render:
                file: RunFile = _Rendered(path, around, self.render, self.mode)
            else:
                values = (text.encode() for text in around)
                file = _Arrow(path, STAGED.with_metadata(dict(zip(AROUND, values, strict=True))))
        try:
            yield file
            with sink_errors(path):
                file.close()
        except BaseException:
            file.abandon()
            raise


class RunFile(Protocol):
    """A run that is being staged."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Take a batch of STAGED."""

    def close(self) -> None:
        """Have it whole."""

    def abandon(self) -> None:
        """Let go of it, as it is."""

    @property
    def checksums(self) -> tuple[Checksum, Checksum]:
        """Those of the Arrow file and of the texts beside it, NO_FILE where there are none."""


class _Arrow:
    """Batches of one schema as an Arrow file; for a run, of STAGED."""

    def __init__(self, path: str, schema: pa.Schema) -> None:
        self._path, self._file = path, ChecksumFile(path)
        self._stream = pa.ipc.new_stream(self._file, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Take a batch."""
        with sink_errors(self._path):
            self._stream.write_batch(batch)

    def close(self) -> None:
        """Have the file whole."""
        self._stream.close()
        self._file.close()

    def abandon(self) -> None:
        """Let go of it, as it is."""
        with suppress(OSError):
            self._file.close()

    @property
    def checksums(self) -> tuple[Checksum, Checksum]:
        """See the port."""
        return self._file.checksum, NO_FILE


class _Rendered:
    """A run as texts, and an Arrow file with what must be known of each.

    The texts are forced to disk as they grow, beside whoever writes them, and whole at the end.
    """

    def __init__(self, path: str, around: tuple[str, str], render: Render, mode: int | None) -> None:
        self._path, self._around, self._render = path, around, render
        self._arrow = _Arrow(path, RENDERED)
        try:
            self._texts = ChecksumFile(texts_beside(path), mode)
        except OSError:
            self._arrow.abandon()
            raise
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tidemark-force")
        self._forcing: Future[None] | None = None
        self._unforced = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Take a batch of STAGED."""
        for some in few(batch, self._around):
            ends, data = text_parts(self._render(some.select(range(len(EVENTS))), self._around))
            merge_keys, sizes = some.column(len(EVENTS)), pa.array(np.diff(ends))
            with sink_errors(self._path):
                self._unforced += self._texts.write(data[ends[0] : ends[-1]].data)
                self._force()
            self._arrow.write(pa.RecordBatch.from_arrays([merge_keys, sizes], schema=RENDERED))

    def _force(self) -> None:
        """Begin to force what was written, if that is enough and no force is under way."""
        if self._unforced < _FORCED_BYTES:
            return
        if self._forcing is not None:
            if not self._forcing.done():
                return
            self._forcing.result()  # an error is told once, to whoever forces next
        self._unforced = 0
        self._forcing = self._pool.submit(self._texts.force)

    def close(self) -> None:
        """Have both files whole, and the texts on disk."""
        with self._pool:
            try:
                if self._forcing is not None:
                    self._forcing.result()
                self._texts.force()
            finally:
                self._texts.close()
        self._arrow.close()

    def abandon(self) -> None:
        """Let go of both, as they are."""
        self._arrow.abandon()
        self._pool.shutdown()
        with suppress(OSError):
            self._texts.close()

    @property
    def checksums(self) -> tuple[Checksum, Checksum]:
        """See the port."""
        return self._arrow.checksums[0], self._texts.checksum


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
