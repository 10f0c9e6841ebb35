"""The table channel: rows of the signal table in the log become signals.

Owns their order and which rows count. The adapter finds the rows in the log and labels their positions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.model import Channel
from signals.model import Signal, is_window_row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.model import SignalRow


def signals_of(rows: Iterable[SignalRow]) -> tuple[Signal, ...]:
    """The signals among `rows`, in log order, without the watermark rows of windows."""
    return tuple(
        Signal(Channel.SOURCE, row.position_label, row.id, row.type, row.data)
        for row in rows
        if not is_window_row(row.type)
    )
