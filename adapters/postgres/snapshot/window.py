"""A window in progress: its watermark, its locks, and the rows that are read in the background."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.source.window_reader import Background
from engine.errors import GaveWay, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adapters.postgres.snapshot.watermark import GivesWay, Watermark
    from adapters.source.window_reader import WindowTasks
    from engine.model import Position, StagedRun
    from engine.snapshot.merge import SupersededKeys

_log = logging.getLogger("adapters")


@dataclass(frozen=True, slots=True)
class TableLocks:
    """Keeps a window's tables as they were when it opened: the locks, held together with the snapshot.

    `compare` raises SchemaChanged if a table is not the same any more.
    """

    held: GivesWay
    compare: Callable[[], None]


class PostgresWindow:
    """The engine's `OpenWindow` on PostgreSQL, over the relations `oids`."""

    def __init__(
        self,
        oids: frozenset[int],
        watermark: Watermark,
        locks: TableLocks,
        superseded: SupersededKeys,
        reading: WindowTasks,
    ) -> None:
        self.oids, self.watermark, self.superseded = oids, watermark, superseded
        self._locks, self._told = locks, False
        self._rows = Background(reading, self._seal)
        self._sealed = False
        locks.held.stops(self._rows.stop)

    @property
    def visible(self) -> str:
        """The window's snapshot, as `pg_current_snapshot()` writes it."""
        return self.watermark.exported.text

    def watch(self, changed: Callable[[], object]) -> None:
        """Call `changed` once all rows are read."""
        self._rows.watch(changed)

    def poll(self) -> Sequence[StagedRun] | None:
        """The staged rows; None while they are being read.

        Raises GaveWay if their tables' locks were given up. The engine asks before every slice. While rows
        wait to go out, the locks keep their tables as they were.
        """
        if self._locks.held.gave_way and not self._sealed:
            raise GaveWay("another session waited to change a table that the window reads")
        staged = self._rows.staged()
        if staged is not None and not self._locks.held.is_alive():
            # The rows read may still go out, as long as no table was altered or swapped since.
            self._locks.compare()
            if not self._told:
                self._told = True
                _log.warning(
                    "the session that held a window's snapshot has ended; its tables are as they were"
                )
        return staged

    def tick(self, position: Position | None) -> None:
        """Once all rows are read, bring an idle log to the watermark."""
        if self._sealed and position is not None:
            self.watermark.push(position)

    def _seal(self) -> None:
        if not self._locks.held.is_alive():
            # Its locks are gone, too: a table may have been rewritten under the readers.
            raise SourceError("the session that held the window's snapshot has ended")
        self.watermark.seal()
        self._sealed = True

    def reached(self, position: Position) -> bool:
        """Whether the stream has passed the watermark."""
        return self.watermark.reached(position)

    def close(self) -> None:
        """Stop reading, release snapshot and locks, remove what was staged."""
        self._rows.close(self.watermark.close)
