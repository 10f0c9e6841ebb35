"""The directory of a files sink, with what a simulated sink was sent, for the real comparison to read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from adapters.verify.events.event_lines import event_path

if TYPE_CHECKING:
    from collections.abc import Iterable


class EventFiles:
    """The lines of all turns. They are written when somebody wants to read them."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._waiting: dict[int, list[bytes]] = {}

    def add(self, turn: int, lines: Iterable[bytes]) -> None:
        """Add lines to a turn."""
        self._waiting.setdefault(turn, []).extend(lines)

    def write(self) -> None:
        """Write what waits."""
        for turn, lines in self._waiting.items():
            path = Path(event_path(self.directory, turn, 0))
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.writelines(lines)
        self._waiting.clear()
