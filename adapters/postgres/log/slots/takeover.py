"""Taking over a slot from another reader: counts the changes that may be sent twice.

Debezium acknowledges the log only from time to time. What it sent after its last acknowledgement is still in
the slot, so the next reader sends it again. Only the consumers can tell which changes these are. This module
counts the changes that were in the slot when it was taken over.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from adapters.postgres.log.pgoutput import read_messages
from adapters.postgres.server.position import lsn_of
from adapters.postgres.server.visibility import format_lsn

if TYPE_CHECKING:
    from collections.abc import Collection

    from adapters.postgres.log.span import Span
    from engine.model import Position

_log = logging.getLogger("adapters")
_CHANGES = np.frombuffer(b"IUD", np.uint8)


@dataclass(slots=True)
class Takeover:
    """The log from `begins`, which the former reader had acknowledged, to `ends`, its end at the takeover."""

    slot: str
    begins: int
    ends: int
    changes: int = 0
    told: bool = False

    def count(self, span: Span, captured: Collection[int]) -> None:
        """Count a span's changes to captured relations (by oid) that lie before `ends`."""
        if self.told or lsn_of(span.start) >= self.ends:
            return
        wanted = np.fromiter(captured, np.int64, len(captured))
        for cut in span.cuts:
            messages = read_messages(cut.part.messages)
            rows = np.isin(messages.kinds, _CHANGES) & (messages.lsns < self.ends)
            self.changes += int(np.isin(messages.int32(messages.starts[rows] + 1), wanted).sum())

    def tell(self, position: Position | None) -> None:
        """Log the count, once, when the stream has passed `ends`."""
        if self.told or position is None or lsn_of(position) < self.ends:
            return
        self.told = True
        _log.info(
            "slot %s held %d changes from %s to %s when it was taken over; those that its former reader had"
            " sent have been sent again",
            *(self.slot, self.changes, format_lsn(self.begins), format_lsn(self.ends)),
        )
