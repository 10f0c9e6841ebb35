"""What a signal channel has read and nobody has taken yet, and the position to save. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from signals.model import Message

Position = TypeVar("Position")


class Inbox(Generic[Position]):
    """Messages that wait. `position` is behind those that were read; what is saved is behind those taken."""

    def __init__(self, position: Position) -> None:
        self.position = self._taken = position
        self._waiting: list[Message] = []
        self._is_new = False

    def resume(self, position: Position, *, is_new: bool) -> None:
        """Begin at a position. If it `is_new`, it has to be saved even if there is no message."""
        self.position = self._taken = position
        self._waiting.clear()
        self._is_new = is_new

    def add(self, message: Message) -> None:
        """Add a message; the caller moves `position` behind it."""
        self._waiting.append(message)

    @property
    def pending(self) -> bool:
        """Whether messages wait, or a first position to save."""
        return self._is_new or bool(self._waiting)

    def take(self) -> Sequence[Message]:
        """The messages since the last call."""
        taken, self._waiting = self._waiting, []
        self._taken = self.position
        return taken

    def saved(self) -> Position:
        """The position to save: after everything that was taken."""
        self._is_new = False
        return self._taken
