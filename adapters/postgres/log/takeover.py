"""A slot that another reader has left, and how much of what it holds may be sent again.

Debezium acknowledges the log now and then. What it has sent since is still in the slot, and whoever reads on
sends it once more. Only the consumers can tell which changes these are. Here those are counted that were in
the slot when it was taken over.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from adapters.postgres.log.pgoutput import read_messages
from adapters.postgres.server.visibility import format_lsn

if TYPE_CHECKING:
    from collections.abc import Collection

    from adapters.postgres.log.reader import Span
    from engine.model import Position

_log = logging.getLogger("adapters")
_CHANGES = np.frombuffer(b"IUD", np.uint8)


@dataclass(slots=True)
class Takeover:
    """The log from `begins`, up to which its former reader had acknowledged it, to `ends`, where it ended."""

    slot: str
    begins: int
    ends: int
    changes: int = 0
    told: bool = False

    def count(self, span: Span, captured: Collection[int]) -> None:
        """Count the changes of captured relations, by oid, that a span holds before the end."""
        if self.told or int(span.start.order[0]) >= self.ends:
            return
        wanted = np.fromiter(captured, np.int64, len(captured))
        for cut in span.cuts:
            messages = read_messages(cut.part.messages)
            rows = np.isin(messages.kinds, _CHANGES) & (messages.lsns < self.ends)
            self.changes += int(np.isin(messages.int32(messages.starts[rows] + 1), wanted).sum())

    def tell(self, position: Position | None) -> None:
        """Say once the stream is past the end what was counted."""
        if self.told or position is None or int(position.order[0]) < self.ends:
            return
        self.told = True
        _log.info(
            "slot %s held %d changes from %s to %s when it was taken over; those that its former reader had"
            " sent have been sent again",
            *(self.slot, self.changes, format_lsn(self.begins), format_lsn(self.ends)),
        )
