"""The console sink: a readable line per event on standard output.

Tasks write into a temporary directory, and the driver prints the parts in order when the turn is committed.
So driver and executors must share a machine. A process can't know what an earlier one has printed: after a
crash a turn may be printed again.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from adapters.sinks.forgetful import Forgetful
from adapters.sinks.lines import readable_lines
from adapters.staging.turn_parts import StagedWriter, Staging, written_files
from engine.errors import SinkRefused
from engine.events.batch import EventForm
from engine.staging.event_rows import EventRows
from engine.staging.files import sink_errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from engine.model import Part
    from engine.ports.sink import PartWriter


class ConsoleSink(Forgetful):
    """Prints turns to `stream`, or to standard output."""

    form: Final = EventForm.RECORDS
    row_form: Final = EventRows()

    def __init__(self, stream: BinaryIO | None = None) -> None:
        self._stream = stream
        with sink_errors(tempfile.gettempdir()):
            self._spool = Path(tempfile.mkdtemp(prefix="tidemark-console-"))
        self._staging = Staging(self._spool)
        self._printed: int | None = None

    def writer(self, turn: int) -> PartWriter:
        """Begin a turn."""
        if self.resolve_commit(turn):
            raise SinkRefused(f"turn {turn} is printed already", where="console")
        return StagedWriter(self._staging.begin(turn), readable_lines)

    def commit(self, turn: int, parts: Sequence[Part]) -> None:
        """Print the turn's parts in order."""
        if self.resolve_commit(turn):
            return
        staged = self._staging.begun(turn)
        stream = self._stream or sys.stdout.buffer
        with sink_errors("console"):
            for path in written_files(staged, parts):
                with path.open("rb") as file:
                    shutil.copyfileobj(file, stream, 1 << 20)
            stream.flush()
        self._printed = turn
        self._staging.clear()

    def resolve_commit(self, turn: int) -> bool:
        """Return whether this process has printed the turn."""
        return turn == self._printed

    def newest_turn(self) -> None:
        """Return None: what an earlier process has printed is unknown."""

    def close(self) -> None:
        """Remove the temporary directory."""
        shutil.rmtree(self._spool, ignore_errors=True)
