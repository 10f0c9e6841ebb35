"""What a sink answers that keeps nothing in the state and refuses no topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.model import Part


class Forgetful:
    """The part of the engine's `Sink` that such a sink has nothing to do for."""

    def withhold(self, parts: Sequence[Part], topic: str) -> tuple[()]:  # noqa: ARG002  it refuses none
        """Do nothing: no topic refuses events here."""
        return ()

    def resume(self, saved: Mapping[str, str]) -> None:
        """Do nothing: this sink keeps nothing in the state."""

    def memory(self) -> Mapping[str, str]:
        """Nothing to save."""
        return {}

    def identity(self) -> str:
        """Empty: nothing distinguishes it from another of its kind."""
        return ""
