"""The port of staging: bytes are kept where they were read until they go out.

The rows of a window wait here for their turn, and the raw entries of a large span for the tasks that decode
them. The engine cuts both into *blocks*, and decides what a block contains (`rows.py`, `batches.py`). An
implementation decides where blocks are kept: in files (`adapters/staging/file_blocks.py`), or on the
executors and in the driver's memory (`adapters/staging/executor_blocks.py`). The suite in
`tests/conformance/test_staging.py` checks both.

The driver keeps handles, merge keys, ranges and counts, never the rows. A handle is small and travels: a task
that is given one, through `Executors.map`, can open it. So blocks may be kept on the executors, and a task be
sent to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from engine.model import Checksum, Part
    from engine.snapshot.markers import Markers
    from engine.snapshot.merge import NewerKeys
    from engine.staging.affixes import Affixes
    from engine.staging.rows import Survivors


class Block(Protocol):
    """The handle of a complete block. It pickles, and equal handles are of the same block."""

    @property
    def checksum(self) -> Checksum:
        """What was written."""

    @property
    def is_here(self) -> bool:
        """Whether this process can open it without fetching it from elsewhere."""

    def open(self, what: str) -> AbstractContextManager[pa.Buffer]:
        """The content, verified. Arrays made of it may outlive the context.

        Raises SourceError, which says that `what` (a plural) are gone or damaged.
        """

    def file(self, what: str) -> str | None:
        """The path of a file on disk that holds the content and nothing else; None if there is none.

        Only its size is verified. Raises SourceError, as `open` does.
        """

    def blank(self, what: str, gaps: Sequence[tuple[int, int]]) -> Block | None:
        """Overwrite these ranges of the file with blanks, and force it to disk.

        None if there is no file, or if it can't be written to. Raises SourceError, as `open` does.
        """

    def remove(self) -> None:
        """Remove the block. May be called twice."""


class BlockWriter(Protocol):
    """A block that is being written, in the manner of a binary file. Raises SinkError if there is no room."""

    def write(self, data: bytes | memoryview, /) -> int:
        """Append all of `data`; returns its size."""

    def flush(self) -> None:
        """Do nothing: `finish` completes the block."""

    @property
    def closed(self) -> bool:
        """Whether the block is complete, or given up."""

    def finish(self) -> Block:
        """Complete the block."""

    def abandon(self) -> None:
        """Give the block up, unless it is complete."""


class BlockStore(Protocol):
    """Where blocks are kept, under names. It pickles: tasks write blocks, too."""

    def within(self, name: str) -> BlockStore:
        """The part of the store that has this name, which can be cleared by itself."""

    def create(self, name: str) -> BlockWriter:
        """Begin a block that only the job reads. A name is used once. Raises SinkError."""

    def create_file(self, name: str, mode: int | None) -> BlockWriter:
        """Begin a block that a sink may take as a file: on disk once it is complete, and with this mode.

        None leaves the mode to the umask. A store that keeps no files begins any block.
        """

    def clear(self) -> None:
        """Remove all blocks. Opening one raises SourceError from then on."""


class StagedRows(Protocol):
    """The handle of a staged run. It pickles."""

    def emit(self, newer: NewerKeys, marks: Markers, writer: Any, part: int) -> tuple[Part, Survivors]:
        """Write the surviving rows as a part of a turn, with a writer of the sink that named the form.

        Returns the part, and which rows survived. May be repeated. Raises
        SourceError if the rows are gone or damaged, else SinkError.
        """


@runtime_checkable
class TellsKeys(Protocol):
    """Staged rows whose merge keys can be asked for before they are emitted."""

    def merge_keys(self) -> pa.ChunkedArray | None:
        """The rows' merge keys, in their order; None if they would have to be fetched from elsewhere.

        Raises SourceError if the rows are gone or damaged.
        """


class RunWriter(Protocol):
    """A run that is being staged. Raises SinkError if there is no room."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch of `STAGED`."""

    def finish(self) -> StagedRows:
        """Complete the run."""

    def abandon(self) -> None:
        """Give the run up, unless it is complete."""


class RowForm(Protocol):
    """The form in which the rows of runs wait until a sink takes them. It pickles. A sink names its form."""

    @property
    def directory(self) -> str:
        """Where files of the form must be, so that the sink can take them; empty: anywhere."""

    def begin(self, store: BlockStore, name: str, affixes: Affixes) -> RunWriter:
        """Begin a run under this name. Raises SinkError."""
