"""Staged rows: READ events in files, from reading to emitting.

A window's tasks write the rows that they read here, already encoded and with their merge keys. Emitting
leaves out the superseded rows and gives the rest to the sink. So the rows that Spark reads are not collected
in the driver, and the log is streamed while a window is read. Each file's checksum is computed while it is
written and is passed on with the run (`engine.staging.checksum`).

A run is known by the path of its Arrow file. Rows are staged in one of two forms:

- *Staged events* (`STAGED`): the Arrow file holds the events without the text around each row in its value
  (schema, envelope, source block). That text is larger than most rows and the same for the whole run, so the
  file's metadata holds it once.
- *Rendered events* (`RENDERED`), for sinks that take them: a text file beside the Arrow file holds the final
  text, ready to be handed over when the window is emitted. The Arrow file holds merge keys and text sizes.
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
"""Staged events: complete except for the text around each row's value, plus the merge keys."""
RENDERED: Final = pa.schema([_MERGE_KEY, ("size", pa.int64())])
"""What accompanies rendered events: each row's merge key, and the size of its text in bytes."""
AROUND: Final = (b"value_before", b"value_after")
"""The metadata of STAGED files: the text before and after each row in its event's value."""
_AT_ONCE_BYTES = 2 << 20
_FORCED_BYTES = 1 << 20
"""Forced in small portions, since other fsyncs to the same disk wait for it."""


@dataclass(frozen=True, slots=True)
class StagingArea:
    """Where rows are staged, and how their events are rendered, if at all. Goes to the executors.

    `mode` is the mode of the text files; None leaves it to the umask. Only their owner may access the others.
    """

    directory: str
    render: Render | None = None
    mode: int | None = PRIVATE

    def within(self, name: str) -> StagingArea:
        """The same area in a subdirectory."""
        return replace(self, directory=f"{self.directory}/{name}")

    def path(self, run: int, attempt: int = 0) -> str:
        """The path of a run's Arrow file."""
        return f"{self.directory}/run-{run:05d}-{attempt}.arrow"

    @contextmanager
    def file(self, path: str, around: tuple[str, str]) -> Iterator[RunFile]:
        """Open a run for writing. Its checksums are final after the `with` block.

        `around` is the JSON text before and after each row in the emitted value. Raises SinkError if there is
        no room; the job then waits and reads the window again, so no row is left out.
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
        """Write a batch of STAGED."""

    def close(self) -> None:
        """Complete the run."""

    def abandon(self) -> None:
        """Close the files as they are."""

    @property
    def checksums(self) -> tuple[Checksum, Checksum]:
        """The checksums of the Arrow file and of the text file, NO_FILE if there is no text file."""


class _Arrow:
    """An Arrow file of batches with one schema; as a run on its own, of STAGED."""

    def __init__(self, path: str, schema: pa.Schema) -> None:
        self._path, self._file = path, ChecksumFile(path)
        self._stream = pa.ipc.new_stream(self._file, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch."""
        with sink_errors(self._path):
            self._stream.write_batch(batch)

    def close(self) -> None:
        """Complete the file."""
        self._stream.close()
        self._file.close()

    def abandon(self) -> None:
        """Close the file as it is."""
        with suppress(OSError):
            self._file.close()

    @property
    def checksums(self) -> tuple[Checksum, Checksum]:
        """The Arrow file's checksum; there is no text file."""
        return self._file.checksum, NO_FILE


class _Rendered:
    """A rendered run: a text file, and an Arrow file with merge keys and sizes.

    A thread forces the text file to disk as it grows; closing forces the rest.
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
        """Render and write a batch of STAGED."""
        for some in few(batch, self._around):
            ends, data = text_parts(self._render(some.select(range(len(EVENTS))), self._around))
            merge_keys, sizes = some.column(len(EVENTS)), pa.array(np.diff(ends))
            with sink_errors(self._path):
                self._unforced += self._texts.write(data[ends[0] : ends[-1]].data)
                self._force()
            self._arrow.write(pa.RecordBatch.from_arrays([merge_keys, sizes], schema=RENDERED))

    def _force(self) -> None:
        """Start forcing what was written, if it is at least 1 MiB and no fsync is in progress."""
        if self._unforced < _FORCED_BYTES:
            return
        if self._forcing is not None:
            if not self._forcing.done():
                return
            self._forcing.result()  # raises the error of the fsync that has just ended
        self._unforced = 0
        self._forcing = self._pool.submit(self._texts.force)

    def close(self) -> None:
        """Complete both files, with the texts on disk."""
        with self._pool:
            try:
                if self._forcing is not None:
                    self._forcing.result()
                self._texts.force()
            finally:
                self._texts.close()
        self._arrow.close()

    def abandon(self) -> None:
        """Close both files as they are."""
        self._arrow.abandon()
        self._pool.shutdown()
        with suppress(OSError):
            self._texts.close()

    @property
    def checksums(self) -> tuple[Checksum, Checksum]:
        """The checksums of both files."""
        return self._arrow.checksums[0], self._texts.checksum


def few(batch: pa.RecordBatch, around: tuple[str, str]) -> Iterator[pa.RecordBatch]:
    """A batch in pieces of about 2 MiB, including these texts around each row, to fit the CPU cache."""
    if not batch.num_rows:
        return
    row_bytes = sum(len(text.encode()) for text in around) + batch.nbytes / batch.num_rows
    rows = max(1, int(_AT_ONCE_BYTES / row_bytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def texts_beside(path: str) -> str:
    """The path of the text file of a run staged at this path."""
    return f"{path.removesuffix('.arrow')}.text"


def clear(directory: str) -> None:
    """Remove everything staged under a directory."""
    shutil.rmtree(directory, ignore_errors=True)
