"""A window's watermarks: signal rows in each of its databases, or the end of the log there.

Every log entry after the position streamed when the window opened supersedes the row that it concerns:
whatever the row may contain of it, the stream has it in full. Everything streamed before was committed
before, and rows are read with locks, so all rows contain it. What remains is to know when the stream has
passed every change that the rows may contain: once it delivers a signal row written after the last of them
was read, or reaches the position where the log ended at that time.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from engine.errors import SourceError
from signals.window_rows import ROOM

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.sqlserver.server.position import LogPosition
    from adapters.sqlserver.server.questions import Questions
    from engine.model import CollectionId
    from signals.window_rows import WindowRow, WindowRows


_log = logging.getLogger("adapters")


class Watermark(Protocol):
    """A window's watermark in the log of one database."""

    def open(self, questions: Questions) -> None:
        """Set it, before any row is read. Any thread may do this, with a connection that it may use."""

    def note_signal(self, signal_id: str | None) -> None:
        """Note that a row inserted into the database's signal table has been streamed."""

    def seal(self) -> None:
        """Note that all rows are read."""

    def reached(self, position: LogPosition) -> bool:
        """Whether the stream, at this position of the database, has passed what the rows may contain."""

    def close(self, questions: Questions | None = None) -> None:
        """Clean up after the window; in another thread than the job's with a connection that it may use."""


class AtBeginning:
    """For rows of the initial snapshot while the log waits: nothing has been streamed yet.

    `alive` tells whether the locks under which the rows were read are still held.
    """

    def __init__(self, alive: Callable[[], bool]) -> None:
        self._alive = alive

    def open(self, questions: Questions) -> None:
        """Do nothing."""

    def note_signal(self, signal_id: str | None) -> None:
        """Do nothing."""

    def seal(self) -> None:
        """Raise SourceError if the locks were lost: rows may contain later changes."""
        if not self._alive():
            raise SourceError("the initial snapshot's locks were lost while rows were read")

    def reached(self, position: LogPosition) -> bool:  # noqa: ARG002  wherever the stream is
        """Always true."""
        return True

    def close(self, questions: Questions | None = None) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class SignalTable:
    """A signal table. `columns` are those of the id, the type and the data; `room` bytes of data fit."""

    id: CollectionId
    columns: tuple[str, ...]
    room: int = ROOM


class SignalRows:
    """Writes a `snapshot-window-open` row when the window opens, and a `-close` row when its rows are read.

    With INSERT_DELETE both rows are removed at the end, so that the signal table does not grow. Rows have the
    window's id, so those of a window lost in a crash do not affect another window. `now_ms` is the time.
    """

    def __init__(
        self,
        questions: Questions,
        signal: SignalTable,
        marks: WindowRows,
        now_ms: Callable[[], int],
        *,
        deletes: bool,
    ) -> None:
        self._questions, self._signal, self._marks = questions, signal, marks
        self._now_ms, self._deletes = now_ms, deletes
        self._closed = False

    def open(self, questions: Questions) -> None:
        """Write the opening row."""
        self._insert(questions, self._marks.opening())

    def note_signal(self, signal_id: str | None) -> None:
        """Watch for the closing row."""
        self._closed = self._closed or signal_id == self._marks.close_id

    def seal(self) -> None:
        """Write the closing row."""
        self._insert(self._questions, self._marks.closing(self._now_ms()))

    def reached(self, position: LogPosition) -> bool:  # noqa: ARG002  the closing row decides
        """Whether the closing row has been streamed."""
        return self._closed

    def close(self, questions: Questions | None = None) -> None:
        """Remove the rows where the strategy says so. If that fails, they stay."""
        if not self._deletes:
            return
        asked = questions or self._questions
        try:
            for row_id in (self._marks.open_id, self._marks.close_id):
                asked.remove_signal(self._signal.id, self._signal.columns[0], row_id)
        except SourceError as error:
            # Windows are closed after faults too, when the connection may be gone.
            _log.warning("a window's rows stay in the signal table: %s", error)

    def _insert(self, questions: Questions, row: WindowRow) -> None:
        data = row.data if len(row.data.encode()) <= self._signal.room else None
        questions.write_signal(self._signal.id, self._signal.columns, row.id, row.type, data)


class LogEnd:
    """Writes nothing: the stream has passed the rows once it reaches where the log ended after the read.

    On an idle database that may take minutes, until CDC makes an entry of its own.
    """

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._end: LogPosition | None = None

    def open(self, questions: Questions) -> None:
        """Ask where the log ends, to fail early where the login lacks the right."""
        questions.log_end()

    def note_signal(self, signal_id: str | None) -> None:
        """Do nothing."""

    def seal(self) -> None:
        """Note where the log ends."""
        self._end = self._questions.log_end()

    def reached(self, position: LogPosition) -> bool:
        """Whether the stream has come that far."""
        return self._end is not None and position >= self._end

    def close(self, questions: Questions | None = None) -> None:
        """Do nothing."""
