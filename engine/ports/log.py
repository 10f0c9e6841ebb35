"""The port of the log: spans are taken, and acknowledged once they are safe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from engine.model import Position


class Span(Protocol):
    """The entries of `(start, end]` of the log, as an adapter holds them."""

    @property
    def end(self) -> Position:
        """The position after the last entry."""

    @property
    def entries(self) -> int:
        """The number of entries."""

    @property
    def silent(self) -> bool:
        """Whether nothing but the position moved, not even an empty transaction."""

    @property
    def committed_at_s(self) -> float:
        """When the last transaction was committed, in Unix seconds by the database's clock."""


@runtime_checkable
class ReadsAhead(Protocol):
    """A log that tells how much it has read and nobody has taken yet."""

    @property
    def ahead(self) -> tuple[int, int]:
        """Entries and bytes. Any thread may ask; the numbers may be a moment old."""


class LogReader(Protocol):
    """One session of the change log, from a position on. After a SourceError it must be reopened."""

    def take(self, timeout_s: float) -> Span | None:
        """The entries since the last call, in order and without gaps, bounded in rows and bytes.

        Waits up to `timeout_s` while there is nothing. None if no entries came and the position did not move.
        """

    def wake(self) -> None:
        """End a wait of `take` at once, or else the next one. May be called from any thread."""

    def acknowledge(self, position: Position) -> None:
        """Allow the database to discard the log before `position`. Idempotent; never goes back."""

    def hurry(self, *, on: bool) -> None:
        """While on, the position follows the database within milliseconds even if the log is idle."""

    def limit(self, share: float) -> None:
        """From now on, spans use at most this share of their bounds, but at least one entry."""

    def close(self) -> None:
        """End the session. The next one gets again what was taken and not acknowledged."""
