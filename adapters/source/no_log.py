"""The log of a job that streams none: one that reads its tables and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.model import Position


class NoLog:
    """The engine's `LogReader` where none is streamed."""

    def take(self, _timeout_s: float) -> None:
        """Nothing ever comes."""

    def acknowledge(self, position: Position) -> None:
        """There is nobody to tell."""

    def hurry(self, *, on: bool) -> None:
        """There is nobody to hurry."""

    def limit(self, share: float) -> None:
        """There is nothing to limit."""

    def close(self) -> None:
        """There is nothing to close."""
