"""Wakes a thread that waits for a socket."""

from __future__ import annotations

import os


class WakePipe:
    """A pipe that the thread waits for, too, by its `descriptor`."""

    def __init__(self) -> None:
        self.descriptor, self._written = os.pipe()
        os.set_blocking(self._written, False)

    def wake(self) -> None:
        """Wake the thread, now or when it waits next."""
        try:
            os.write(self._written, b"!")
        except BlockingIOError:
            return

    def clear(self) -> None:
        """Forget why the thread was woken."""
        os.read(self.descriptor, 1024)

    def close(self) -> None:
        """Close both ends. The thread has ended."""
        for descriptor in (self.descriptor, self._written):
            os.close(descriptor)
