"""The steps of a log's reader, taken by the simulator in the place of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapters.source.log.log_thread import LogThread
from engine.errors import TidemarkError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.world import Life


class LogSteps(LogThread):
    """The reader's steps, taken by the simulator: while somebody waits, and whenever it likes."""

    log: Any
    life: Life
    _stepping = False

    def start(self) -> None:
        """Nothing runs beside."""

    def wait(self, until: Callable[[], object], timeout_s: float | None = None) -> None:
        """Take steps until the condition holds or nothing more comes."""
        self.advance(until)
        if not (self.failure or self.closing or until()):
            self.life.world.pass_time(timeout_s or 0.0)
            self.advance(until)

    def wait_or_wake(self, until: Callable[[], object], timeout_s: float) -> None:
        """The same: the simulator decides how long somebody waits."""
        self.wait(until, timeout_s)

    def advance(self, until: Callable[[], object] = lambda: False, most: int = 1_000) -> None:
        """Take steps."""
        if self._stepping:
            return  # a step of its own takes steps of the world
        self._stepping = True
        try:
            for _ in range(most):
                if self.failure or self.closing or until() or not self._moves():
                    return
        finally:
            self._stepping = False

    def _moves(self) -> bool:
        """Take a step; returns whether another one makes sense."""
        self.log.idle = False
        try:
            self._step()
        except TidemarkError as error:
            self._fail(error)
            self._end()
        return not self.log.idle

    def close(self, wake: Callable[[], None] = lambda: None) -> None:  # noqa: ARG002  nobody sleeps
        """End."""
        self.closing = True
        self._end()
