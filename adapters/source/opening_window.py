"""A window that opens while the stream goes on.

Opening asks the server several questions. A thread does that, so that the stream does not wait:

    turns      ──── opens ───── span 1 ───── span 2 ───── joins ──── span 3 ──►
    thread              └──────── asks ────────┘

The thread gets values and a session that it may use, and gives back what it was told. Everything that others
see changes when the window opens and when it joins, on the job's thread. What spans 1 and 2 mean for the
window depends on what its rows will contain. So each source has a rule of its own, in its
`snapshot/opening_window.py`.
"""

from __future__ import annotations

from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from adapters.source.window_reader import one_thread
from engine.errors import SourceError, TidemarkError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor, Future

    from engine.model import Position, StagedRun
    from engine.ports.source import OpenWindow
    from engine.ports.visibility import TellsVisibility
    from engine.snapshot.merge import SupersededKeys

    class _Shown(OpenWindow, TellsVisibility, Protocol):
        """A window that tells what its rows are read in."""


OPENING: Callable[[], Executor] = one_thread
"""What windows' questions are asked in."""


def opening_pool() -> Executor:
    """What a window's questions are asked in."""
    return OPENING()


Asked = TypeVar("Asked")
Opened = TypeVar("Opened", bound="OpenWindow")
Seen = TypeVar("Seen", bound="_Shown")


class OpeningWindow(Generic[Asked, Opened]):
    """The engine's `OpenWindow`, from its opening on.

    `ask` runs in `pool`. `join` makes the window of what it returns, and releases that where it fails. `over`
    is called once, when the window has joined, failed or been given up. `release` gets what was asked of a
    window that was given up, in the pool's thread.
    """

    def __init__(
        self,
        ask: Callable[[], Asked],
        join: Callable[[Asked], Opened],
        over: Callable[[], None],
        pool: Executor,
        release: Callable[[Asked], None],
    ) -> None:
        self._join, self._over, self._pool, self._let_go = join, over, pool, release
        self._asked: Future[Asked] = pool.submit(copy_context().run, ask)
        self._window: Opened | None = None
        self._changed: Callable[[], object] = lambda: None
        self._ended = False

    @property
    def superseded(self) -> SupersededKeys | None:
        """What superseded rows before the window was open; None until then."""
        return self._window.superseded if self._window else None

    def watch(self, changed: Callable[[], object]) -> None:
        """Call `changed` once everything is asked, and then as the window itself."""
        self._changed = changed
        if self._window is not None:
            self._window.watch(changed)
        else:
            self._asked.add_done_callback(lambda _: changed())

    def poll(self) -> Sequence[StagedRun] | None:
        """Join once everything is asked; then as the window itself."""
        if self._window is not None:
            return self._window.poll()
        self.joined()
        return None

    def joined(self) -> Opened | None:
        """The window, which joins if everything is asked by now; None while it is not."""
        if self._window is None and self._asked.done():
            try:
                self._window = self._join(self._asked.result())
                self._window.watch(self._changed)
            finally:
                self._end()
        return self._window

    def reached(self, position: Position) -> bool:
        """Whether the stream has passed the watermark."""
        return self._window is not None and self._window.reached(position)

    def close(self) -> None:
        """Close the window; what is asked for one that is not open yet is released as soon as it is there."""
        if self._window is not None:
            self._window.close()
        elif not self._ended:
            if not self._asked.cancel():
                self._pool.submit(self._release)  # behind the question, which nobody waits for
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._pool.shutdown(wait=False)
        self._over()

    def _release(self) -> None:
        with suppress(TidemarkError):  # then there is nothing to release
            self._let_go(self._asked.result())


class ShownOpeningWindow(OpeningWindow[Asked, Seen]):
    """The same for windows that tell what their rows are read in."""

    @property
    def visible(self) -> str:
        """The window's snapshot. Raises SourceError while there is none."""
        if self._window is None:
            raise SourceError("the window is not open yet")
        return self._window.visible
