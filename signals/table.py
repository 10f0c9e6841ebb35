"""The table channel: rows of the signal table that the log carries become signals.

Owns the order and which rows count. Finding the rows in the log is the adapter's work, and so is
naming their position; nothing here connects to a database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.model import Channel
from signals.model import Signal, is_window_row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.model import SignalRow


def signals_of(rows: Iterable[SignalRow]) -> tuple[Signal, ...]:
    """The signals among `rows`, in the order of the log; rows that mark a window are left out."""
    return tuple(
        Signal(Channel.SOURCE, row.position_label, row.id, row.type, row.data)
        for row in rows
        if not is_window_row(row.type)
    )
