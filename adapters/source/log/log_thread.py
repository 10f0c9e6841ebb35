"""The thread that reads a log, and what it shares with the job's thread.

Owns the thread's life: it begins, repeats one step, hands over the error that ends it, and closes what it was
reading. A source's log reader owns the step, how much is read ahead, and how what was read becomes spans.
"""

from __future__ import annotations

import threading
from contextvars import copy_context
from typing import TYPE_CHECKING

from engine.errors import TidemarkError, unforeseen

if TYPE_CHECKING:
    from collections.abc import Callable

_JOINED_WITHIN_S = 10.0


class LogThread:
    """Repeats `step` until it is closed or fails, then calls `end`. Both run in this thread alone.

    `changed` is the lock of everything that both threads touch. Notify it of whatever the other one may wait
    for. `closing` says that the step should return soon. `failure` is the error that ended the thread.
    """

    def __init__(self, step: Callable[[], None], end: Callable[[], None]) -> None:
        self._step, self._end = step, end
        self.changed = threading.Condition()
        self.closing = self._woken = False
        self.failure: TidemarkError | None = None
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._run,), name="tidemark-log", daemon=True
        )

    def start(self) -> None:
        """Begin. Until then `step` need not work."""
        self._thread.start()

    def wait(self, until: Callable[[], object], timeout_s: float | None = None) -> None:
        """Wait until the condition holds, the thread fails or is closed, or the time is over.

        The caller holds `changed`, which `until` is called under.
        """
        self.changed.wait_for(lambda: self.failure or self.closing or until(), timeout_s)

    def wait_or_wake(self, until: Callable[[], object], timeout_s: float) -> None:
        """The same for the job's thread, whose wait ends as well once `wake` is called."""
        self.wait(lambda: self._woken or until(), timeout_s)
        self._woken = False

    def wake(self) -> None:
        """End the wait of the job's thread, or else its next one."""
        with self.changed:
            self._woken = True
            self.changed.notify_all()

    def raise_failure(self) -> None:
        """Raise the error that ended the thread, if it has ended by one."""
        if self.failure is not None:
            raise self.failure

    def close(self, wake: Callable[[], None] = lambda: None) -> None:
        """End the thread and wait for its end. `wake` ends a wait of the step's own."""
        with self.changed:
            self.closing = True
            self.changed.notify_all()
            wake()
        self._thread.join(_JOINED_WITHIN_S)

    def _run(self) -> None:
        try:
            while not self.closing:
                self._step()
        except TidemarkError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001  the thread must hand over every error
            self._fail(unforeseen("the log reader", error))
        finally:
            self._end()

    def _fail(self, error: TidemarkError) -> None:
        with self.changed:
            self.failure = error
            self.changed.notify_all()
