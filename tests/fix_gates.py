"""Gates that windows wait at which open while the stream goes on: a test decides when their threads go on."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Gates:
    """Threads ask what opens a window once `before` is open, and are seen to have it once `after` is."""

    before: threading.Event = field(default_factory=threading.Event)
    after: threading.Event = field(default_factory=threading.Event)
    asked: list[Future[Any]] = field(default_factory=list)

    def pool(self) -> ThreadPoolExecutor:
        """What a window's questions are asked in."""
        return GatedPool(self)


class GatedPool(ThreadPoolExecutor):
    """A thread that waits for the gates."""

    def __init__(self, gates: Gates) -> None:
        super().__init__(1)
        self._gates = gates

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Run it once the first gate is open."""

        def run() -> Any:
            self._gates.before.wait(60)
            return function(*arguments, **named)

        asked = GatedFuture(self._gates, super().submit(run))
        self._gates.asked.append(asked)
        return asked


class GatedFuture(Future[Any]):
    """What it has asked, once the second gate is open."""

    def __init__(self, gates: Gates, behind: Future[Any]) -> None:
        super().__init__()
        self._gates, self.behind = gates, behind

    def done(self) -> bool:
        """Whether the job may notice that it is done."""
        return self._gates.after.is_set() and self.behind.done()

    def cancel(self) -> bool:
        """Give it up if it has not begun."""
        return self.behind.cancel()

    def result(self, timeout: float | None = None) -> Any:
        """Wait for it, whatever the job has noticed."""
        return self.behind.result(timeout)


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch) -> Gates:
    """The gates of the windows that open in this test."""
    made = Gates()
    monkeypatch.setattr("adapters.source.opening_window.OPENING", made.pool)
    return made
