"""Reads a window's rows in a thread that waits for Spark; the engine polls it from its own thread."""

from __future__ import annotations

from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.config.settings import SnapshotSettings
    from engine.model import StagedRun, Window
    from engine.staging.rows import StagingArea


def one_thread() -> Executor:
    """A thread of a window's own."""
    return ThreadPoolExecutor(1, thread_name_prefix="tidemark-window")


@dataclass(frozen=True, slots=True)
class WindowTasks:
    """The tasks of a window: `read` blocks until all rows are staged in `area`.

    `cancel` makes it end early; `closed` is called when the window is done. `pool` makes what `read` runs in.
    """

    read: Callable[[], list[StagedRun]]
    cancel: Callable[[], None]
    area: StagingArea
    closed: Callable[[], object]
    pool: Callable[[], Executor] = one_thread


class Chunks(Protocol):
    """What reads windows, each under its id."""

    def area(self, window_id: str) -> StagingArea:
        """Where a window's rows are staged."""

    def cancel(self, window_id: str) -> None:
        """Stop reading a window."""


def reading_of(
    window: Window,
    read: Callable[..., list[StagedRun]],
    chunks: Chunks,
    settings: SnapshotSettings,
    forget: Callable[[str], object],
    pool: Callable[[], Executor] = one_thread,
) -> WindowTasks:
    """How `read` reads a window, with as many tasks as the settings allow. `forget` comes last."""
    return WindowTasks(
        read=partial(read, most_tasks=settings.max_threads if window.as_initial else 0),
        cancel=partial(chunks.cancel, window.id),
        area=chunks.area(window.id),
        closed=partial(forget, window.id),
        pool=pool,
    )


class Background:
    """A reading in progress. `sealed` is called once, by the first poll after all rows are read."""

    def __init__(self, reading: WindowTasks, sealed: Callable[[], None]) -> None:
        self._reading, self._seal = reading, sealed
        self._sealed = self._closed = False
        self._pool = reading.pool()
        self._staged: Future[list[StagedRun]] = self._pool.submit(copy_context().run, reading.read)

    def watch(self, changed: Callable[[], object]) -> None:
        """Call `changed` once all rows are read, or will never be, from the thread that reads them."""
        self._staged.add_done_callback(lambda _: changed())

    def staged(self) -> list[StagedRun] | None:
        """The staged rows; None while they are being read. Raises any error of the reading."""
        if not self._staged.done():
            return None
        staged = self._staged.result()
        if not self._sealed:
            self._seal()
            self._sealed = True
        return staged

    @property
    def sealed(self) -> bool:
        """Whether all rows are read, and a poll has noticed."""
        return self._sealed

    @property
    def done(self) -> bool:
        """Whether all rows are read, or will never be."""
        return self._staged.done()

    def stop(self) -> None:
        """Make the reading end early; may be called from any thread."""
        if not self._staged.done():
            self._reading.cancel()

    def close(self, release: Callable[[], None] = lambda: None) -> None:
        """Stop reading, release what is held for it, remove what was staged."""
        try:
            if not self._staged.done():
                self._reading.cancel()
            release()
        finally:
            if not self._closed:
                # Queued behind the task, which may still be writing. Removing many files takes a while, and
                # nobody waits for it.
                self._pool.submit(self._reading.area.clear)
                self._closed = True
            self._pool.shutdown(wait=False)
            self._reading.closed()
