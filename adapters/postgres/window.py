"""A window in progress: its watermark, what it holds, and the rows that are read in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.background import Background
from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from adapters.background import Reading
    from adapters.postgres.watermark import GivesWay, Watermark
    from engine.merge import Superseded
    from engine.model import Position, Staged


class PostgresWindow:
    """The engine's `OpenWindow` on PostgreSQL, over the relations `oids`."""

    def __init__(
        self,
        oids: frozenset[int],
        watermark: Watermark,
        held: GivesWay,
        control: psycopg.Connection,
        superseded: Superseded,
        reading: Reading,
    ) -> None:
        self.oids, self.watermark, self.superseded = oids, watermark, superseded
        self._held, self._control = held, control
        self._rows = Background(reading, self._seal)

    def poll(self) -> Sequence[Staged] | None:
        """The staged rows; None while they are read. Gives way to a session that waits for a table."""
        self._held.give_way(self._control)
        return self._rows.staged()

    def _seal(self) -> None:
        if not self._held.alive:
            # Its locks went with it: a table may have been rewritten under the readers.
            raise SourceError("the session that held the window's snapshot has ended")
        self.watermark.seal()

    def reached(self, position: Position) -> bool:
        """Whether the stream has passed the watermark."""
        return self.watermark.reached(position)

    def close(self) -> None:
        """Stop reading, release snapshot and locks, remove what was staged."""
        self._rows.close(self.watermark.close)
