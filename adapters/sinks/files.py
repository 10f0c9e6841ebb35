"""The files sink: JSON lines, one directory per turn, exactly once.

Owns the layout of the directory and when a turn counts as committed. A reader sees a turn whole or
not at all, and may take the directories in the order of their names:

    <directory>/turn-000000000042/part-00000.jsonl    a committed turn
               /.staging/…                            a turn being written
               /.windows/…                            rows that wait for their turn
               /.empty-turn                           the number of the last turn without events

A line is an event; blanks may stand before it, where a row was superseded while it waited.

The directory must be seen by the driver and the executors alike, on one file system that renames
atomically and that `fsync` forces to disk.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from adapters.sinks.lines import json_lines
from adapters.sinks.staging import StagedWriter, Staging, force, parts, turn_name
from engine.errors import SinkRefused
from engine.files import sink_errors
from engine.staging import StagingArea

if TYPE_CHECKING:
    from engine.ports import PartWriter


class FilesSink:
    """Writes turns below one directory, which is made if it is missing."""

    def __init__(self, directory: Path | str) -> None:
        # Executors may run in another working directory.
        self._directory = Path(directory).absolute()
        with sink_errors(self._directory):
            self._directory.mkdir(parents=True, exist_ok=True)
        self._staging = Staging(self._directory / ".staging")

    @property
    def windows(self) -> StagingArea:
        """Where windows' rows are staged: rendered, and on the file system that they will stay on."""
        return StagingArea(str(self._directory / ".windows"), json_lines)

    def writer(self, turn: int) -> PartWriter:
        """Begin a turn; see the port."""
        if self.applied(turn):
            raise SinkRefused(
                f"turn {turn} is committed already",
                place=str(self._directory),
                hint="use the checkpoint that this directory belongs to, or an empty directory",
            )
        return StagedWriter(self._staging.begin(turn), json_lines)

    def commit(self, turn: int) -> None:
        """Rename the attempt's directory to the turn's; see the port."""
        if self.applied(turn):
            return
        staged = self._staging.begun(turn)
        if parts(staged):
            force(staged)
            with sink_errors(self._path(turn)):
                staged.rename(self._path(turn))
        else:
            self._mark_empty(turn)
        force(self._directory)

    def applied(self, turn: int) -> bool:
        """Whether the turn's directory is there, or the turn was the last one without events."""
        with sink_errors(self._directory):
            found = self._path(turn).is_dir() or self._last_empty() == str(turn)
        if found:
            # The process that renamed it may have died before it forced the name to disk.
            force(self._directory)
        return found

    def close(self) -> None:
        """Remove what was not committed."""
        self._staging.clear()

    def _path(self, turn: int) -> Path:
        return self._directory / turn_name(turn)

    @property
    def _marker(self) -> Path:
        return self._directory / ".empty-turn"

    def _last_empty(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return self._marker.read_text("ascii").strip()
        return ""

    def _mark_empty(self, turn: int) -> None:
        # An idle job turns every second: one file with a number, not a directory for each turn.
        partial = self._marker.with_suffix(".partial")
        with sink_errors(self._marker):
            with partial.open("w", encoding="ascii") as file:
                file.write(f"{turn}\n")
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self._marker)
