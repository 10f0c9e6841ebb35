"""The null sink: takes every event, counts it and keeps nothing.

For measuring what the road up to a sink costs. It draws every batch, as any sink must, and writes
one small file per part: the count, so that a task that is run again counts once.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from adapters.sinks.staging import Staging, parts
from engine.errors import SinkRefused
from engine.files import sink_errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from engine.ports import PartWriter


@dataclass(frozen=True, slots=True)
class CountingWriter:
    """Counts the events of parts into an attempt's directory."""

    directory: Path

    def write(self, part: int, batches: Iterable[pa.RecordBatch]) -> None:
        """Drop the events of the part, and note how many there were."""
        count = sum(batch.num_rows for batch in batches)
        path = self.directory / f"part-{part:05d}"
        with sink_errors(path):
            path.write_text(str(count), "ascii")


class NullSink:
    """Drops events. `rows` is how many the committed turns had, on a machine shared with the tasks."""

    def __init__(self) -> None:
        with sink_errors(tempfile.gettempdir()):
            self._spool = Path(tempfile.mkdtemp(prefix="tidemark-null-"))
        self._staging = Staging(self._spool)
        self._committed: int | None = None
        self.rows = 0

    def writer(self, turn: int) -> PartWriter:
        """Begin a turn; see the port."""
        if self.applied(turn):
            raise SinkRefused(f"turn {turn} is committed already", place="null sink")
        return CountingWriter(self._staging.begin(turn))

    def commit(self, turn: int) -> None:
        """Add the turn's events to `rows`."""
        if self.applied(turn):
            return
        staged = self._staging.begun(turn)
        with sink_errors(staged):
            self.rows += sum(int(part.read_text("ascii")) for part in parts(staged))
        self._committed = turn
        self._staging.clear()

    def applied(self, turn: int) -> bool:
        """Whether this process has committed the turn."""
        return turn == self._committed

    def close(self) -> None:
        """Remove the temporary directory."""
        shutil.rmtree(self._spool, ignore_errors=True)
