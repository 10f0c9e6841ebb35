"""What Spark's JVM writes: shown if it does not start, and from then on; its greeting and Ivy's are not.

Its Python workers write here, too. Their tracebacks are left out: a failed task is reported in one line, and
a worker whose JVM has died has nothing to tell. With `-v` this module is not used, and all is shown.

A thread reads the JVM's output, because a full pipe would stop it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_KEPT: Final = 500
"""How many lines of the start are kept for the case that it fails."""


@contextmanager
def quiet_start() -> Iterator[JavaOutput]:
    """A JVM is started inside; what it writes is shown if that fails."""
    output = JavaOutput()
    try:
        yield output
    except BaseException:
        output.failed()
        raise
    output.started()


class Tracebacks:
    """Finds the lines of Python's tracebacks: the first one, indented ones, and the error at the end."""

    def __init__(self) -> None:
        self._inside = False

    def has(self, line: bytes) -> bool:
        """Whether the next line belongs to a traceback."""
        if line.startswith(b"Traceback (most recent call last)"):
            self._inside = True
            return True
        if not self._inside:
            return False
        self._inside = line.startswith(b" ")
        return True


class JavaOutput:
    """The output of a JVM that is being started. `started` or `failed` ends the silence."""

    def __init__(self, out: Callable[[], TextIO] = lambda: sys.stderr) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._kept: deque[bytes] = deque(maxlen=_KEPT)
        self._silent = True
        self._tracebacks = Tracebacks()
        self._reads, self._writes = os.pipe()
        self._thread = threading.Thread(target=self._read, name="java-output", daemon=True)
        self._thread.start()

    @property
    def popen_options(self) -> dict[str, Any]:
        """What sends a process's output here."""
        return {"stdout": self._writes, "stderr": self._writes}

    def started(self) -> None:
        """Forget what was written so far, and show what follows."""
        self._end(show=False)

    def failed(self) -> None:
        """Show what was written so far, and what follows."""
        self._end(show=True)

    def _end(self, *, show: bool) -> None:
        os.close(self._writes)  # the process has its own; without one, reading ends
        with self._lock:
            kept, self._silent = list(self._kept), False
            self._kept.clear()
            for line in kept if show else ():
                self._show(line)

    def _read(self) -> None:
        with os.fdopen(self._reads, "rb") as lines:
            for line in lines:
                with self._lock:
                    if self._silent:
                        self._kept.append(line)
                    elif not self._tracebacks.has(line):
                        self._show(line)

    def _show(self, line: bytes) -> None:
        with suppress(OSError, ValueError):  # if nobody takes it any more, reading goes on all the same
            out = self._out()
            out.write(line.decode("utf-8", "replace"))
            out.flush()
