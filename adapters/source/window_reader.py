"""The rows of a window, read by a thread that waits for Spark; the engine polls it from its own."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.staging.staged_rows import clear

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.model import Staged


@dataclass(frozen=True, slots=True)
class Reading:
    """The tasks of a window: `read` blocks until all rows are staged below `directory`.

    `cancel` makes it end early, `closed` is told when the window is done with.
    """

    read: Callable[[], list[Staged]]
    cancel: Callable[[], None]
    directory: str
    closed: Callable[[], object]


class Background:
    """A reading that has begun. `sealed` is told once, when all rows are read, by whoever asks then."""

    def __init__(self, reading: Reading, sealed: Callable[[], None]) -> None:
        self._reading, self._seal = reading, sealed
        self._sealed = self._closed = False
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tidemark-window")
        self._staged: Future[list[Staged]] = self._pool.submit(reading.read)

    def staged(self) -> list[Staged] | None:
        """The staged rows; None while they are read. Raises what reading them has raised."""
        if not self._staged.done():
            return None
        staged = self._staged.result()
        if not self._sealed:
            self._seal()
            self._sealed = True
        return staged

    @property
    def done(self) -> bool:
        """Whether all rows are read, or will never be."""
        return self._staged.done()

    def stop(self) -> None:
        """Have reading end early; from any thread."""
        if not self._staged.done():
            self._reading.cancel()

    def close(self, release: Callable[[], None] = lambda: None) -> None:
        """Stop reading, let go of what is held for it, remove what was staged."""
        try:
            if not self._staged.done():
                self._reading.cancel()
            release()
        finally:
            if not self._closed:
                # Behind a task that may still be writing, and many files take a while: nobody waits for it.
                self._pool.submit(clear, self._reading.directory)
                self._closed = True
            self._pool.shutdown(wait=False)
            self._reading.closed()
