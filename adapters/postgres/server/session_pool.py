"""A pool of the sessions that hold windows' snapshots.

Opening a connection takes several times as long as what a window asks of its session, and the stream waits
meanwhile. The pool keeps sessions between windows, and closes them after a while if no window follows.
"""

from __future__ import annotations

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
    """Hands out sessions without timeouts, new or reused; `open_one` opens one. For one thread."""

    def __init__(
        self,
        open_one: Callable[[], Questions],
        clock: Callable[[], float],
        *,
        kept: int = _AT_ONCE,
    ) -> None:
        self._open, self._kept, self._clock = open_one, kept, clock
        self._spare: list[tuple[Questions, float]] = []

    def take(self) -> Questions:
        """A session outside of a transaction. Raises SourceError."""
        while self._spare:
            session, _since_s = self._spare.pop()
            if session.snapshots.ended():
                return session
            session.close()
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
        if len(self._spare) < self._kept and session.snapshots.begin_ending():
            self._spare.append((session, self._clock()))
        else:
            session.close()

    def trim(self) -> None:
        """Close sessions that have been unused for a while."""
        while self._spare and self._clock() - self._spare[0][1] > _KEPT_S:
            self._spare.pop(0)[0].close()

    def close(self) -> None:
        """Close all sessions in the pool."""
        while self._spare:
            self._spare.pop()[0].close()
