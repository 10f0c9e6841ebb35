"""What a window knows about the log: a cluster time, or documents in the signal collection.

The rows are those of one cluster time in either case: an entry is contained exactly if its time is not
later. With signal documents a window also stays open until its closing document has come by the stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from adapters.mongodb.log.position import has_passed
from adapters.mongodb.server.connection import source_errors
from engine.errors import SchemaChanged

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.mongodb.server.connection import Server
    from engine.errors import SnapshotGone, SourceError
    from engine.model import CollectionId, Position


class Watermark(Protocol):
    """The window's cluster time, and when the stream has passed it."""

    @property
    def at(self) -> tuple[int, int]:
        """The cluster time of the rows."""

    def loosen(self) -> None:
        """Rows may be later than that time, since the server does not read theirs as of one."""

    def gone(self, error: SnapshotGone) -> SourceError:
        """What follows from it that the server no longer has the state of that time."""

    def streamed(self, signal_id: str | None) -> None:
        """A document of the signal collection has been streamed."""

    def seal(self) -> None:
        """All rows are read."""

    def reached(self, position: Position) -> bool:
        """Whether the stream has passed every change that the rows may contain."""


class AtBeginning:
    """The time just before the log begins: nothing has been streamed. `gone` is told when that is too old."""

    def __init__(self, at: tuple[int, int], gone: Callable[[], None]) -> None:
        self.at, self._gone = at, gone

    def loosen(self) -> None:
        """Nothing to wait for: this is only where no log follows."""

    def gone(self, error: SnapshotGone) -> SourceError:
        """What is left is read at other times; it is no fault of the window's."""
        self._gone()
        return SchemaChanged(error.message, place=error.place)

    def streamed(self, signal_id: str | None) -> None:
        """Nothing to learn."""

    def seal(self) -> None:
        """Nothing to write."""

    def reached(self, position: Position) -> bool:  # noqa: ARG002  wherever the stream is
        """At once."""
        return True


class ClusterTime:
    """Writes nothing. Entries streamed so far, the newest at `streamed_to`, are never later than the rows.

    Loose rows may be later than the time itself: then they contain nothing for sure that came after it, and
    perhaps everything up to the end of reading.
    """

    def __init__(self, server: Server, streamed_to: tuple[int, int]) -> None:
        self._server, self._loose = server, False
        self.at = self._until = max(server.now(), streamed_to)

    def loosen(self) -> None:
        """Wait for the stream until it has passed the end of reading."""
        self._loose = True

    def gone(self, error: SnapshotGone) -> SourceError:
        """The window is read again at a later time."""
        return error

    def streamed(self, signal_id: str | None) -> None:
        """Nothing to learn."""

    def seal(self) -> None:
        """Note the time at which loose rows were read for sure."""
        if self._loose:
            self._until = max(self._until, self._server.now())

    def reached(self, position: Position) -> bool:
        """Whether the stream has passed what the rows may contain."""
        return has_passed(position, self._until)


class SignalDocuments:
    """Writes a document when the window opens, and another one when its rows are read."""

    def __init__(
        self, server: Server, signal: CollectionId, window_id: str, streamed_to: tuple[int, int]
    ) -> None:
        self._server, self._signal, self._window_id = server, signal, window_id
        self._closed = False
        self._write("open")
        self.at = max(server.now(), streamed_to)

    def loosen(self) -> None:
        """The closing document comes behind all that was read."""

    def gone(self, error: SnapshotGone) -> SourceError:
        """The window is read again at a later time."""
        return error

    def streamed(self, signal_id: str | None) -> None:
        """Look for the closing document."""
        self._closed = self._closed or signal_id == f"{self._window_id}-close"

    def seal(self) -> None:
        """Write the closing document."""
        self._write("close")

    def reached(self, position: Position) -> bool:
        """Whether the closing document has been streamed."""
        return self._closed and has_passed(position, self.at)

    def _write(self, edge: str) -> None:
        database, name = self._signal.parts
        document: dict[str, Any] = {
            "_id": f"{self._window_id}-{edge}",
            "type": f"snapshot-window-{edge}",
            "payload": "",
        }
        with source_errors("writing to the signal collection", str(self._signal)):
            self._server.client[database][name].insert_one(document)
