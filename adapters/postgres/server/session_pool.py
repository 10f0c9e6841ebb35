"""A pool of the sessions that hold windows' snapshots.

Opening a connection takes several times as long as what a window asks of its session. The pool keeps sessions
between windows, and closes them after a while if no window follows.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.postgres.server.questions.questions import Questions

_KEPT_S = 10.0
_AT_ONCE = 2
"""The most windows in progress at once."""

_IDLE = "'transaction_timeout', 'idle_in_transaction_session_timeout'"
_OFF = "SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN"
NO_TIMEOUTS = f"{_OFF} ('statement_timeout', {_IDLE})"
"""A window lasts as long as it must, whatever timeouts the role or the database sets."""
NO_IDLE_TIMEOUTS = f"{_OFF} ({_IDLE})"
"""The same for a reader of its rows; its start-up options bound its single queries."""


class Sessions:
    """Hands out sessions without timeouts, new or reused; `open_one` opens one.

    Any thread may take a session and give it back.
    """

    def __init__(
        self,
        open_one: Callable[[], Questions],
        clock: Callable[[], float],
        *,
        kept: int = _AT_ONCE,
    ) -> None:
        self._open, self._kept, self._clock = open_one, kept, clock
        self._spare: list[tuple[Questions, float]] = []
        self._changing, self._closed = threading.Lock(), False

    def take(self) -> Questions:
        """A session outside of a transaction. Raises SourceError."""
        while (spare := self._pop(-1)) is not None:
            if spare.snapshots.ended():
                return spare
            spare.close()
        session = self._open()
        try:
            session.snapshots.remove_timeouts(NO_TIMEOUTS)
        except Exception:
            session.close()
            raise
        return session

    def give(self, session: Questions) -> None:
        """End the session's transaction and keep the session for a while.

        Does not wait for the server's answer.
        """
        with self._changing:
            kept = not self._closed and len(self._spare) < self._kept and session.snapshots.begin_ending()
            if kept:
                self._spare.append((session, self._clock()))
        if not kept:
            session.close()

    def trim(self) -> None:
        """Close sessions that have been unused for a while."""
        while (spare := self._pop(0, unused_s=_KEPT_S)) is not None:
            spare.close()

    def close(self) -> None:
        """Close all sessions in the pool, and those that are given back from now on."""
        self._closed = True
        while (spare := self._pop(-1)) is not None:
            spare.close()

    def _pop(self, at: int, unused_s: float = -1.0) -> Questions | None:
        """Take the first or the last spare session, if it was unused for longer than this."""
        with self._changing:
            if not self._spare or self._clock() - self._spare[at][1] <= unused_s:
                return None
            return self._spare.pop(at)[0]
