"""The in-process channel: signals that the job's own process sends, for its page and for embedding programs.

Nothing stores a signal until the turn that obeys it is saved. If the process dies before, the signal is lost,
and its sender has no answer.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from engine.model import Channel
from engine.saved import read_integer
from signals.model import Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_WAITING: Final = 100


class InProcessChannel:
    """A `SignalChannel` that any thread may send to. Signals are numbered from the job's first start on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent: deque[tuple[int, bytes]] = deque()
        self._next = self._taken = 0
        self._resumed = self._is_new = False

    def send(self, text: bytes) -> str | None:
        """Send a JSON object; returns its label. None if the job takes none yet, or too many wait."""
        with self._lock:
            waiting = self._next - self._taken
            if not self._resumed or waiting >= MOST_WAITING:
                return None
            self._next += 1
            self._sent.append((self._next, text))
            return _label(self._next)

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Resume after the signals that the saved state has taken. A failed turn's are received again."""
        taken = read_integer(saved["taken"]) if saved else 0
        with self._lock:
            self._taken, self._is_new, self._resumed = taken, not saved, True
            self._next = max(self._next, taken)

    def memory(self) -> Mapping[str, Any]:
        """How many signals were taken."""
        self._is_new = False
        return {"taken": self._taken}

    def pending(self) -> bool:
        """Whether signals wait, or a first position to save."""
        return self._is_new or self._next > self._taken

    def receive(self) -> Sequence[Message]:
        """The signals since the last call."""
        with self._lock:
            waiting = [(number, text) for number, text in self._sent if number > self._taken]
            self._taken = self._next
            while len(self._sent) > MOST_WAITING:
                self._sent.popleft()
        return [Message(Channel.IN_PROCESS, _label(number), text) for number, text in waiting]

    def close(self) -> None:
        """Do nothing: nothing is kept open."""


def _label(number: int) -> str:
    return f"in-process@{number}"
