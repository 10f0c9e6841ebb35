"""The log of a job that streams none: it reads its tables and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.model import Position


class NoLog:
    """The engine's `LogReader` for a job that streams no log."""

    def take(self, _timeout_s: float) -> None:
        """Return nothing: no log is streamed."""

    def wake(self) -> None:
        """Do nothing: `take` does not wait."""

    def acknowledge(self, position: Position) -> None:
        """Do nothing."""

    def hurry(self, *, on: bool) -> None:
        """Do nothing."""

    def limit(self, share: float) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
