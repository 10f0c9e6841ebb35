"""The rows that mark a window in the signal table: ids, types and data, as Debezium 3.7 writes them. Pure.

A watermark writes them. `signals.model` knows their types.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.model import Window

ROOM: Final = 2048
"""How many bytes of data a row has at most: Debezium's signal tables have a column of this size."""
_NAMES: Final = 900


class WindowRow(NamedTuple):
    """A row: its id, its type, and its data, a JSON object."""

    id: str
    type: str
    data: str


@dataclass(frozen=True, slots=True)
class WindowRows:
    """The rows of one window, which was opened at `opened_ms`, Unix time."""

    window_id: str
    opened_ms: int
    signals: tuple[str, ...] = ()
    collections: tuple[str, ...] = ()

    @property
    def open_id(self) -> str:
        """The id of the opening row."""
        return f"{self.window_id}-open"

    @property
    def close_id(self) -> str:
        """The id of the closing row."""
        return f"{self.window_id}-close"

    def opening(self) -> WindowRow:
        """The row to write when the window opens."""
        return WindowRow(self.open_id, "snapshot-window-open", self._data())

    def closing(self, closed_ms: int) -> WindowRow:
        """The row to write when the window's rows are read."""
        return WindowRow(self.close_id, "snapshot-window-close", self._data(closed_ms))

    def _data(self, closed_ms: int | None = None) -> str:
        fields = {"openWindowTimestamp": _instant(self.opened_ms)}
        if closed_ms is not None:
            fields["closeWindowTimestamp"] = _instant(closed_ms)
        # A window of ours may serve several signals and read several collections.
        fields |= {"correlationId": names} if (names := _joined(self.signals)) else {}
        fields |= {"dataCollectionId": names} if (names := _joined(self.collections)) else {}
        return json.dumps(fields, ensure_ascii=False)


def rows_of(window: Window, now_ms: int) -> WindowRows:
    """The rows of a window that opens now."""
    collections = tuple(str(target.collection) for target in window.targets)
    return WindowRows(window.id, now_ms, window.signals, collections)


def _joined(names: Iterable[str]) -> str:
    """As many of the names as there is room for, with commas between them."""
    taken: list[str] = []
    room = _NAMES
    for name in dict.fromkeys(names):
        room -= len(json.dumps(name, ensure_ascii=False).encode())
        if room < 0:
            break
        taken.append(name)
    return ",".join(taken)


def _instant(unix_ms: int) -> str:
    """A time as Java's Instant prints it, which leaves out milliseconds that are zero."""
    moment = datetime.fromtimestamp(unix_ms / 1000, UTC)
    text = moment.isoformat(timespec="milliseconds" if unix_ms % 1000 else "seconds")
    return text.replace("+00:00", "Z")
