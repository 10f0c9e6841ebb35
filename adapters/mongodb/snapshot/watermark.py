"""A window's watermark: a cluster time, optionally with documents in the signal collection.

In both cases rows are as of one cluster time: an entry is contained exactly if its time is not later. With
signal documents the window also stays open until the stream has delivered its closing document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from adapters.mongodb.log.position import has_passed
from engine.errors import SchemaChanged

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.mongodb.server.questions import Questions
    from engine.errors import SnapshotGone, SourceError
    from engine.model import CollectionId, Position
    from signals.window_rows import WindowRows


class Watermark(Protocol):
    """The window's cluster time, and when the stream has passed it."""

    @property
    def at(self) -> tuple[int, int]:
        """The cluster time of the rows."""

    def loosen(self) -> None:
        """Allow rows later than that time, for collections that the server can't read as of a time."""

    def handle_gone(self, error: SnapshotGone) -> SourceError:
        """The error to raise if the server no longer has the state of that time."""

    def note_signal(self, signal_id: str | None) -> None:
        """Note that a document of the signal collection has been streamed."""

    def seal(self) -> None:
        """Note that all rows are read."""

    def reached(self, position: Position) -> bool:
        """Whether the stream has passed every change that the rows may contain."""


class AtBeginning:
    """The time just before the log begins: nothing has been streamed. `gone` is called if it is too old."""

    def __init__(self, at: tuple[int, int], gone: Callable[[], None]) -> None:
        self.at, self._gone = at, gone

    def loosen(self) -> None:
        """Do nothing: this only happens where no log follows."""

    def handle_gone(self, error: SnapshotGone) -> SourceError:
        """Have the rest read at other times. That is not the window's failure."""
        self._gone()
        return error.recast(SchemaChanged, "")

    def note_signal(self, signal_id: str | None) -> None:
        """Do nothing."""

    def seal(self) -> None:
        """Do nothing."""

    def reached(self, position: Position) -> bool:  # noqa: ARG002  wherever the stream is
        """Always true."""
        return True


class ClusterTime:
    """Writes nothing. Entries streamed before the window is open are never later than the time `at`.

    Loose rows may be later than the time itself. They are only sure to contain what came up to it, and may
    contain anything up to the end of the read.
    """

    def __init__(self, questions: Questions, at: tuple[int, int]) -> None:
        self._questions, self._loose = questions, False
        self.at = self._until = at

    def loosen(self) -> None:
        """Make the stream pass the end of the read, not just the time."""
        self._loose = True

    def handle_gone(self, error: SnapshotGone) -> SourceError:
        """Have the window read again at a later time."""
        return error

    def note_signal(self, signal_id: str | None) -> None:
        """Do nothing."""

    def seal(self) -> None:
        """Note a time by which loose rows were certainly read."""
        if self._loose:
            self._until = max(self._until, self._questions.now())

    def reached(self, position: Position) -> bool:
        """Whether the stream has passed what the rows may contain."""
        return has_passed(position, self._until)


class SignalDocuments:
    """A document was written before the time `at` was chosen; writes another when the rows are read."""

    def __init__(
        self,
        questions: Questions,
        signal: CollectionId,
        marks: WindowRows,
        now_ms: Callable[[], int],
        at: tuple[int, int],
    ) -> None:
        self._questions, self._signal, self._marks = questions, signal, marks
        self._now_ms, self.at = now_ms, at
        self._closed = False

    def loosen(self) -> None:
        """Do nothing: the closing document comes after everything that was read."""

    def handle_gone(self, error: SnapshotGone) -> SourceError:
        """Have the window read again at a later time."""
        return error

    def note_signal(self, signal_id: str | None) -> None:
        """Watch for the closing document."""
        self._closed = self._closed or signal_id == self._marks.close_id

    def seal(self) -> None:
        """Write the closing document."""
        self._questions.write_signal(self._signal, *self._marks.closing(self._now_ms()))

    def reached(self, position: Position) -> bool:
        """Whether the closing document has been streamed."""
        return self._closed and has_passed(position, self.at)
