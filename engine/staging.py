"""READ events between being read and being emitted: Arrow files in the staging directory.

A window's tasks write what they have read here, already encoded, beside each row's merge key. When
the window closes, what was superseded meanwhile is left out and the rest goes to the sink. So no
row passes through the driver, and the log goes on being streamed while a window is read.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from engine.events.batch import EVENTS
from engine.merge import KEY_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.merge import Newer
    from engine.model import CollectionId
    from engine.ports import PartWriter

STAGED = EVENTS.append(pa.field("merge_key", KEY_TYPE))
"""Rows as staged: finished events and their merge keys."""


@dataclass(frozen=True, slots=True)
class Staged:
    """The rows that one task read of one run: a file of STAGED batches."""

    ticket: int
    collection: CollectionId
    path: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Emission:
    """A staged run on its way to the sink, as part `part` of a turn; a value for executors."""

    staged: Staged
    newer: Newer
    part: int

    def write(self, writer: PartWriter) -> int:
        """Write what survives; gives how many rows that was."""
        counted = _Counted(self._survivors())
        writer.write(self.part, counted)
        return counted.rows

    def _survivors(self) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(self.staged.path) as source, pa.ipc.open_stream(source) as batches:
            for batch in batches:
                mask = self.newer.survivors(batch.column(EVENTS_WIDTH))
                events = batch.select(range(EVENTS_WIDTH))
                yield events if mask is None else events.filter(mask)


EVENTS_WIDTH = len(EVENTS)


class _Counted:
    """Batches passed on, and their rows counted on the way."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch


@contextmanager
def staging_file(path: str) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Open a staged run for writing; gives the function that takes its batches."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, STAGED) as stream:
        yield stream.write_batch


def clear(directory: str) -> None:
    """Remove what was staged under a directory, if anything was."""
    shutil.rmtree(directory, ignore_errors=True)
