"""The operating system's clock, ids and threads, for those that are given them."""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from engine.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable


RUNNING: ContextVar[str] = ContextVar("running", default="")
"""The name of the job that a thread works for, where a process runs several; empty elsewhere. For the log."""


class SideTask(Protocol):
    """Something that runs beside the job's turns."""

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended, or for so many seconds."""


class StartBeside(Protocol):
    """Starts what must not wait for a turn that is stuck: giving way to others, renewing the lease."""

    def __call__(self, run: Callable[[], None], name: str) -> SideTask:
        """Start `run`. A simulator starts nothing and takes the single steps itself."""


def start_thread(run: Callable[[], None], name: str) -> SideTask:
    """Start a thread that does not keep the process alive. It works for the same job as its starter."""
    thread = threading.Thread(target=copy_context().run, args=(run,), name=name, daemon=True)
    thread.start()
    return thread


def system_clock(sleep: Callable[[float], object] = time.sleep) -> Clock:
    """The system's clock, with random ids; `sleep` may end early when the job is to stop."""
    return Clock(time.time, time.monotonic, sleep, lambda: str(uuid4()))
