"""Passes what happens to collections on to all who listen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.ports.desk import SnapshotListener
    from engine.snapshot.queue_entry import Table
    from engine.verify.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Listeners:
    """Passes what happens to collections on to several listeners."""

    listeners: tuple[SnapshotListener, ...]

    def appeared(self, table: Table, label: str, why: str) -> None:
        """Pass it on."""
        for listener in self.listeners:
            listener.appeared(table, label, why)

    def started(self, table: Table) -> None:
        """Pass it on."""
        for listener in self.listeners:
            listener.started(table)

    def progress(self, table: Table, percent: int) -> None:
        """Pass it on."""
        for listener in self.listeners:
            listener.progress(table, percent)

    def finished(self, table: Table, note: str = "") -> None:
        """Pass it on."""
        for listener in self.listeners:
            listener.finished(table, note)

    def failed(self, table: Table, error: Exception) -> None:
        """Pass it on."""
        for listener in self.listeners:
            listener.failed(table, error)

    def verified(self, table: Table, verdict: Verdict) -> None:
        """Pass it on."""
        for listener in self.listeners:
            listener.verified(table, verdict)
