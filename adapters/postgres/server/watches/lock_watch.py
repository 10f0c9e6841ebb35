"""Sees sessions that wait for our locks, and ends ours to let them through, in a thread of its own.

A session that wants to change a table waits for the window that reads it. It should wait a second at most,
whatever the job's own thread is doing: that may hang in a sink for minutes. So this thread asks the server
over a connection of its own, and ends our sessions that others wait for. Readers under such a session are
told to stop, since they hold locks, too. The job's thread finds out when it next asks.

    somebody waits ──┬── seen ─────── still waiting: the session is ended
                0 … 0.25 s       at most 1 s from the beginning
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from adapters.system import start_thread
from engine.errors import TidemarkError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from adapters.postgres.server.questions.questions import Questions
    from adapters.system import SideTask, StartBeside

_log = logging.getLogger("adapters")
_LOOK_S = 0.25
_WAITS_S = 1.0
_SLACK_S = 0.05
"""Tolerance for a look that comes a little early."""
_KEPT_S, _ENDS_S = 10.0, 1.0
ANSWERED_WITHIN_S = 5.0
"""The questions take milliseconds. A connection that takes longer is stuck and gets replaced."""


@dataclass(eq=False, slots=True)
class WatchedSession:
    """A session that holds locks. `gave_way`: it is to end for another session; `ended`: it was ended.

    The watching thread then calls the `readers`, which must not block.
    """

    pid: int
    gave_way: bool = False
    ended: bool = False
    waited_since_s: float | None = None
    readers: list[Callable[[], None]] = field(default_factory=list)


class LockWatch:
    """Watches sessions while there are any. `open_one` opens a connection to ask over.

    `start` runs the watch beside the turns; `look` is one step of it.
    """

    def __init__(
        self,
        open_one: Callable[[], Questions],
        clock: Callable[[], float],
        start: StartBeside = start_thread,
    ) -> None:
        self._open, self._clock, self._start = open_one, clock, start
        self._changed = threading.Condition()
        self._watched: list[WatchedSession] = []
        self._ending: WatchedSession | None = None
        self._questions: Questions | None = None
        self._thread: SideTask | None = None
        self._closed = self._told = False

    def watch(self, pid: int) -> WatchedSession:
        """From now on, let sessions through that wait for the locks of this session."""
        watched = WatchedSession(pid)
        with self._changed:
            self._watched.append(watched)
            if self._thread is None and not self._closed:
                self._thread = self._start(self._run, "tidemark-locks")
            self._changed.notify_all()
        return watched

    def forget(self, watched: WatchedSession) -> bool:
        """Stop watching a session that holds no locks any more.

        Returns whether it is certain not to be ended. It is not certain if the server was asked to end it and
        has not answered within a second.
        """
        with self._changed:
            if watched in self._watched:
                self._watched.remove(watched)
            return self._changed.wait_for(lambda: self._ending is not watched, _ENDS_S)

    def close(self) -> None:
        """Stop watching, for good."""
        with self._changed:
            self._closed, self._watched = True, []
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=_ENDS_S)

    # What the thread runs.

    def _run(self) -> None:
        idle_since_s = self._clock()
        while not self._closed:
            self.look()
            with self._changed:
                now_s = self._clock()
                if self._watched:
                    idle_since_s = now_s
                elif now_s - idle_since_s > _KEPT_S:
                    self._disconnect()
                if not self._closed:
                    self._changed.wait(_LOOK_S if self._watched or self._questions else None)
        self._disconnect()

    def look(self) -> None:
        """Ask once who waits, and let through those who have waited long enough."""
        with self._changed:
            pids = [watched.pid for watched in self._watched]
        if not pids:
            return
        try:
            waited_for = self._ask(pids)
        except TidemarkError as error:
            # The log's reader handles a server that is out of reach.
            if not self._told:
                _log.warning("can't see who waits for the locks of a window: %s", error)
            self._told = True
            self._disconnect()
            return
        self._told = False
        for watched in self._due(waited_for):
            self._let_through(watched)

    def _ask(self, pids: Collection[int]) -> frozenset[int]:
        if self._questions is None:
            self._questions = self._open()
        return self._questions.locks.waited_for(pids)

    def _due(self, waited_for: frozenset[int]) -> list[WatchedSession]:
        """The sessions that others have waited for long enough, marked as giving way."""
        now_s, due = self._clock(), []
        with self._changed:
            for watched in self._watched:
                if watched.pid not in waited_for:
                    watched.waited_since_s = None
                elif watched.waited_since_s is None:
                    watched.waited_since_s = now_s
                elif (
                    now_s - watched.waited_since_s >= _WAITS_S - 2 * _LOOK_S - _SLACK_S and not watched.ended
                ):
                    watched.gave_way = True
                    due.append(watched)
        return due

    def _let_through(self, watched: WatchedSession) -> None:
        with self._changed:
            # A forgotten session was given back and may now serve something else.
            self._ending = watched if watched in self._watched else None
        # Not under the lock: the job's thread must not wait on a stalled network.
        if self._ending is not None and self._questions is not None:
            try:
                self._questions.locks.end(watched.pid)
                watched.ended = True
            except TidemarkError:
                # The next look tries again, over another connection.
                self._disconnect()
        with self._changed:
            self._ending = None
            self._changed.notify_all()
        for stop in list(watched.readers):
            stop()

    def _disconnect(self) -> None:
        if self._questions is not None:
            self._questions.close()
            self._questions = None
