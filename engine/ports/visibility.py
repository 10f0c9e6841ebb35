"""The optional port of a window that tells what its rows were read in."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class TellsVisibility(Protocol):
    """A window that tells what its rows were read in."""

    @property
    def visible(self) -> str:
        """What the window's snapshot could see, as the source writes it."""
