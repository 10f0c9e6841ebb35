"""Writes a signal into PostgreSQL's signal table, for commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.postgres.drivers import make_server
from adapters.postgres.settings import PostgresSettings

if TYPE_CHECKING:
    from engine.config.settings import Settings
    from engine.model import CollectionId, SignalRow


def write_signal(settings: Settings, table: CollectionId, row: SignalRow) -> None:
    """Insert the row. Raises SourceError."""
    with make_server(settings.source_as(PostgresSettings)).open() as questions:
        questions.signals.insert(table, row.id or "", row.type or "", row.data)
