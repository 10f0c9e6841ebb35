"""A window in progress: its watermark, and the thread that waits for Spark to read its rows.

The engine polls it from its own thread; this one does nothing but wait for the Spark job.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import SourceError
from engine.staging import clear

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import psycopg

    from adapters.postgres.watermark import GivesWay, Watermark
    from engine.merge import Superseded
    from engine.model import Position, Staged


@dataclass(frozen=True, slots=True)
class Reading:
    """The Spark job of a window: `read` blocks until all rows are staged below `directory`.

    `cancel` makes it end early, `closed` is told when the window is done with.
    """

    read: Callable[[], list[Staged]]
    cancel: Callable[[], None]
    directory: str
    closed: Callable[[], None]


class PostgresWindow:
    """The engine's `OpenWindow` on PostgreSQL."""

    def __init__(
        self,
        watermark: Watermark,
        held: GivesWay,
        control: psycopg.Connection,
        superseded: Superseded,
        reading: Reading,
    ) -> None:
        self.watermark, self.superseded = watermark, superseded
        self._held, self._control = held, control
        self._reading = reading
        self._sealed = False
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tidemark-window")
        self._staged: Future[list[Staged]] = self._pool.submit(reading.read)

    def poll(self) -> Sequence[Staged] | None:
        """The staged rows; None while they are read. Gives way to a session that waits for a table."""
        self._held.give_way(self._control)
        if not self._staged.done():
            return None
        staged = self._staged.result()
        if not self._sealed:
            if not self._held.alive:
                # Its locks went with it: a table may have been rewritten under the readers.
                raise SourceError("the session that held the window's snapshot has ended")
            self.watermark.seal()
            self._sealed = True
        return staged

    def reached(self, position: Position) -> bool:
        """Whether the stream has passed the watermark."""
        return self.watermark.reached(position)

    def close(self) -> None:
        """Stop reading, release snapshot and locks, remove what was staged."""
        if not self._staged.done():
            self._reading.cancel()
        self.watermark.close()
        # A task may still be writing; nobody waits for it.
        self._staged.add_done_callback(lambda _done: clear(self._reading.directory))
        self._pool.shutdown(wait=False)
        self._reading.closed()
