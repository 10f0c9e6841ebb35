"""The ports of what persists between turns: the lease, the state store, dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from engine.isolation.kept_events import Bundle
    from engine.model import (
        CollectionId,
    )


class Lease(Protocol):
    """The right to write to a checkpoint and a sink. One job at a time holds it, from its start on."""

    def check(self) -> None:
        """Raise LeaseLost if another job holds the lease, or may hold it."""

    def confirm(self) -> None:
        """As `check`, but look at the lease itself. Called after a failure, since a takeover causes some."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """A saved document, with the turn after which it holds."""

    turn: int
    document: bytes


@dataclass(frozen=True, slots=True)
class SavedStates:
    """The states in a store: the newest promoted one, and a pending one if it is newer."""

    promoted: SavedState | None
    pending: SavedState | None


class StateStore(Protocol):
    """Stores the job's state, one document per turn. Used by one job at a time.

    Saving a document is atomic, whenever the process or the machine dies. Every method raises StateError if
    the storage fails or holds something unreadable.
    """

    def load(self) -> SavedStates:
        """Load the newest states. What an interrupted save left is removed, not read."""

    def save_pending(self, turn: int, document: bytes) -> None:
        """Save the state that will hold once `turn` is sent. Replaces a pending state of the same turn."""

    def save_beside(self, turn: int, document: bytes) -> str:
        """Save a document for the states from this turn on; returns the name by which they refer to it.

        It is kept as long as any state refers to it, which means: has the name in its document. Saving for
        the same turn again replaces it.
        """

    def load_beside(self, name: str) -> bytes:
        """Load the document of this name."""

    def promote(self, turn: int) -> None:
        """Make the pending state of `turn` the newest. Repeating it for the same turn does nothing.

        Raises InvariantError if no state of this turn was saved.
        """

    def discard(self, turn: int) -> None:
        """Delete the pending state of `turn`, if there is one."""


class DeadLetters(Protocol):
    """Stores the entries and events of collections that are set aside, by turn."""

    def keep(self, turn: int, collection: CollectionId, lines: Iterable[bytes]) -> None:
        """Store a turn's lines, replacing those of the same turn. Raises StateError."""

    def drop(self, collection: CollectionId) -> None:
        """Delete everything stored for a collection."""

    def settle(self, turn: int, collections: Collection[CollectionId]) -> None:
        """Delete what later turns stored, and everything of collections not listed."""

    @property
    def epoch(self) -> int:
        """The epoch of the lease under which bundles are stored."""

    def keep_bundle(self, bundle: Bundle, lines: Sequence[bytes]) -> None:
        """Store a bundle of a collection's events, replacing the same bundle. Raises StateError."""

    def bundles(self, collection: CollectionId) -> Sequence[Bundle]:
        """The bundles stored for a collection, in order."""

    def lines_of(self, bundle: Bundle) -> Sequence[bytes]:
        """The lines of a bundle. Raises StateError."""

    def drop_bundle(self, bundle: Bundle) -> None:
        """Delete a bundle, if it exists."""
