"""Sessions with a server that are kept for a while after their use.

Opening a connection takes several times as long as what a window asks over it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_KEPT_S = 10.0
_AT_ONCE = 2
"""The most windows in progress at once."""


class _Closes(Protocol):
    def close(self) -> None:
        """End the session."""


Session = TypeVar("Session", bound=_Closes)


class SpareSessions(Generic[Session]):
    """Hands out sessions, new or reused; `open_one` opens one, and at most `kept` are kept.

    Any thread may take a session and give it back. One that failed is closed instead.
    """

    def __init__(
        self, open_one: Callable[[], Session], clock: Callable[[], float], *, kept: int = _AT_ONCE
    ) -> None:
        self._open, self._kept, self._clock = open_one, kept, clock
        self._spare: list[tuple[Session, float]] = []
        self._changing, self._closed = threading.Lock(), False

    def take(self) -> Session:
        """A session for one thread. Raises SourceError."""
        while (spare := self._pop(-1)) is not None:
            if self._is_usable(spare):
                return spare
            spare.close()
        return self._open_session()

    def give(self, session: Session) -> None:
        """Keep the session for a while, or close it."""
        with self._changing:
            kept = not self._closed and len(self._spare) < self._kept and self._make_ready(session)
            if kept:
                self._spare.append((session, self._clock()))
        if not kept:
            session.close()

    def trim(self) -> None:
        """Close sessions that have been unused for a while."""
        while (spare := self._pop(0, unused_s=_KEPT_S)) is not None:
            spare.close()

    def empty(self) -> None:
        """Close all sessions that are kept."""
        while (spare := self._pop(-1)) is not None:
            spare.close()

    def close(self) -> None:
        """Close all sessions that are kept, and those that are given back from now on."""
        self._closed = True
        self.empty()

    def _open_session(self) -> Session:
        """Open a session."""
        return self._open()

    def _is_usable(self, _session: Session) -> bool:
        """Whether a session that was kept can be used again."""
        return True

    def _make_ready(self, _session: Session) -> bool:
        """Make a session ready to be kept; returns whether that worked. Does not wait for the server."""
        return True

    def _pop(self, at: int, unused_s: float = -1.0) -> Session | None:
        """Take the first or the last spare session, if it was unused for longer than this."""
        with self._changing:
            if not self._spare or self._clock() - self._spare[at][1] <= unused_s:
                return None
            return self._spare.pop(at)[0]
