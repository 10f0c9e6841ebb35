"""A window in progress: its watermark in each database, and the rows read in the background.

If the stream switches a table of the window to another capture instance, the window is read again: its rows
have the columns of the previous instance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.source.window_reader import Background
from adapters.sqlserver.server.position import positions_of
from engine.errors import SchemaChanged
from engine.snapshot.merge import SupersededKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adapters.source.window_reader import WindowTasks
    from adapters.sqlserver.snapshot.watermark import Watermark
    from engine.model import CollectionId, Position, StagedRun


class SqlServerWindow:
    """The engine's `OpenWindow` on SQL Server. Nothing streamed before it opened is newer than its rows.

    `watermarks` are by database number. They need not be sealed together, since each database's rows are
    judged by its own log. `merges` has the tables that the window reads, with the columns that match rows to
    changes. The stream waits while rows of a `blocking` one are read.
    """

    def __init__(
        self,
        watermarks: Mapping[int, Watermark],
        merges: Mapping[CollectionId, tuple[str, ...]],
        reading: WindowTasks,
        *,
        blocking: bool = False,
    ) -> None:
        self.watermarks, self.merges, self.superseded = watermarks, merges, SupersededKeys()
        self.blocking = blocking
        self._switched: list[CollectionId] = []
        self._rows = Background(reading, self._seal)

    def watch(self, changed: Callable[[], object]) -> None:
        """Call `changed` once all rows are read."""
        self._rows.watch(changed)

    def poll(self) -> Sequence[StagedRun] | None:
        """The staged rows; None while they are being read."""
        if self._switched:
            raise SchemaChanged("another capture instance took over", where=self._switched[0])
        return self._rows.staged()

    @property
    def read(self) -> bool:
        """Whether all its rows are read, so that the stream may pass its watermarks."""
        return self._rows.sealed

    def _seal(self) -> None:
        for watermark in self.watermarks.values():
            watermark.seal()

    def note_signal(self, database: int, signal_id: str | None) -> None:
        """Note a row of a database's signal table."""
        watermark = self.watermarks.get(database)
        if watermark is not None:
            watermark.note_signal(signal_id)

    def note_switch(self, table: CollectionId) -> None:
        """Note that a table's changes have another shape from here on."""
        if table in self.merges:
            self._switched.append(table)

    def reached(self, position: Position) -> bool:
        """Whether the stream has passed the watermarks."""
        if self._switched:
            return False
        positions = positions_of(position)
        return all(watermark.reached(positions[number]) for number, watermark in self.watermarks.items())

    def close(self) -> None:
        """Stop reading, and remove what was staged."""
        self._rows.close(self._release)

    def _release(self) -> None:
        for watermark in self.watermarks.values():
            watermark.close()
