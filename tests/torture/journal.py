"""What the job under torture reports, one line of JSON each. A written line survives a kill."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import orjson


class Journal:
    """Appends notes to a file, as complete lines."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, what: str, **more: Any) -> None:
        """Write a line."""
        os.write(
            self._descriptor,
            orjson.dumps({"what": what, "at": time.clock_gettime(time.CLOCK_REALTIME), **more}) + b"\n",
        )

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class JournalReader:
    """Reads lines as they come, never incomplete ones."""

    def __init__(self, path: Path) -> None:
        self.path, self._offset = path, 0
        self.notes: list[dict[str, Any]] = []

    def read(self) -> list[dict[str, Any]]:
        """Everything so far."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return self.notes
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        self.notes += [orjson.loads(line) for line in whole.splitlines()]
        return self.notes

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        """The notes of these kinds so far."""
        return [note for note in self.read() if note["what"] in kinds]

    def streams_since(self, count: int) -> bool:
        """Whether a job has opened its log behind so many notes, and sent a turn since."""
        notes = [note["what"] for note in self.read()[count:]]
        return "opened" in notes and "turn" in notes[notes.index("opened") :]
