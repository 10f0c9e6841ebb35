"""The cluster time that a blocking snapshot is read at on MongoDB, and the stream that waits there.

All windows of a blocking signal are read as of one cluster time T, the end of the log when the snapshot
begins. The stream is cut exactly there: it hands out all events up to T, and none after it. So no event
supersedes a document, and what the documents contain has been streamed before them.

If the signal collection may ask to stop it, the stream goes on, and what is left is read as of a time behind
that signal, which is obeyed before.

By default the server keeps the state of T for five minutes. What is left then is read as of another time, to
which the stream moves on. So are capped collections, which can't be read as of a time, and documents that are
to be read again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.mongodb.log.position import has_passed
from engine.errors import SchemaChanged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from adapters.mongodb.log.reader import MongoLog
    from adapters.source.signals.stop_watch import StopWatch
    from engine.errors import SnapshotGone, SourceError
    from engine.job.saved.state import State
    from engine.model import CollectionId, Position, Run

_log = logging.getLogger("adapters")


@dataclass(frozen=True, slots=True)
class BlockingView:
    """A cluster time, and the log that is held there: the `Watermark` of each window.

    `keys` are those of all collections just before. One that is the same later was the same at the time.
    """

    at: tuple[int, int]
    keys: Mapping[CollectionId, tuple[str, ...]]
    log: MongoLog
    lose: Callable[[], None]

    def check(self, runs: Iterable[Run]) -> None:
        """Raise SchemaChanged if a collection may not have been, at this time, the one that was measured."""
        for run in runs:
            if self.keys.get(run.target.collection) != run.key:
                raise SchemaChanged("it was made or renamed behind the view", where=run.target.collection)

    def loosen(self) -> None:
        """Do nothing: capped collections are not read in a view."""

    def handle_gone(self, error: SnapshotGone) -> SourceError:
        """Have the rest read at another time. That is not the window's failure."""
        self.lose()
        return error.recast(SchemaChanged, "")

    def note_signal(self, signal_id: str | None) -> None:
        """Do nothing."""

    def seal(self) -> None:
        """Do nothing."""

    def reached(self, position: Position) -> bool:
        """Whether every event up to the time has been streamed."""
        return has_passed(position, self.at) or self.log.held_back


class BlockingViews:
    """Opens a view when one is needed, and releases it when no entry needs it. Used by the job's thread.

    `stops` is None if no signals come from the signal collection.
    """

    def __init__(self, stops: StopWatch | None) -> None:
        self._stops = stops
        self._log: MongoLog | None = None
        self.view: BlockingView | None = None

    def attach(self, log: MongoLog | None) -> None:
        """Work with another opening of the stream."""
        self._log, self.view = log, None

    def tick(self, state: State) -> None:
        """Let the stream go on once no blocking entry leads the queue, or to a signal that may end it."""
        if self.view is not None and not any(table.blocking for table in state.snapshot.leading):
            _log.info("the blocking snapshot is complete; the stream continues")
            self.release()
        elif self._stops and self.waits(state.position) and self._stops.look():
            _log.info("the signal collection may ask to stop; the stream continues up to there")
            self.release()

    def waits(self, position: Position | None) -> bool:
        """Whether the stream stays where it is: it has reached the view."""
        return self.view is not None and position is not None and self.view.reached(position)

    def open(
        self,
        now: Callable[[], tuple[int, int]],
        streamed_to: tuple[int, int],
        keys: Callable[[], Mapping[CollectionId, tuple[str, ...]]],
    ) -> BlockingView | None:
        """The view in progress or a new one; None where no log is streamed.

        `keys` asks for those of all collections.
        """
        if self.view is not None and streamed_to <= self.view.at:
            return self.view
        if self._log is None:
            return None
        if self._stops is not None:
            self._stops.begin()
        known = keys()
        at = max(now(), streamed_to)
        self._log.hold(at)
        self.view = BlockingView(at, known, self._log, self._lost)
        _log.info("the stream waits at Timestamp(%d, %d) for a blocking snapshot", *at)
        return self.view

    def _lost(self) -> None:
        _log.warning("the server has dropped the state that was read; the rest is read at another time")
        self.release()

    def release(self) -> None:
        """Let the stream go on."""
        self.view = None
        if self._log is not None:
            self._log.let_go()
