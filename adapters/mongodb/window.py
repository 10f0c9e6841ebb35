"""A window in progress: its watermark, and the thread that waits for Spark to read its rows."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.mongodb.server import SnapshotGone
from engine.merge import Superseded
from engine.staging import clear

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adapters.mongodb.watermark import Watermark
    from engine.model import Position, Staged


@dataclass(frozen=True, slots=True)
class Reading:
    """The tasks of a window: `read` blocks until all rows are staged below `directory`.

    `cancel` makes it end early, `closed` is told when the window is done with.
    """

    read: Callable[[], list[Staged]]
    cancel: Callable[[], None]
    directory: str
    closed: Callable[[], None]


class MongoWindow:
    """The engine's `OpenWindow` on MongoDB. Nothing streamed before it opened is newer than its rows."""

    def __init__(self, watermark: Watermark, reading: Reading) -> None:
        self.watermark, self.superseded = watermark, Superseded()
        self._reading = reading
        self._sealed = False
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tidemark-window")
        self._staged: Future[list[Staged]] = self._pool.submit(reading.read)

    def poll(self) -> Sequence[Staged] | None:
        """The staged rows; None while they are read."""
        if not self._staged.done():
            return None
        try:
            staged = self._staged.result()
        except SnapshotGone:
            self.watermark.gone()
            raise
        if not self._sealed:
            self.watermark.seal()
            self._sealed = True
        return staged

    def reached(self, position: Position) -> bool:
        """Whether the stream has passed the watermark."""
        return self.watermark.reached(position)

    def close(self) -> None:
        """Stop reading, remove what was staged."""
        if not self._staged.done():
            self._reading.cancel()
        # A task may still be writing; nobody waits for it.
        self._staged.add_done_callback(lambda _done: clear(self._reading.directory))
        self._pool.shutdown(wait=False)
        self._reading.closed()
