"""Writes a signal into MongoDB's signal collection, for commands."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from adapters.mongodb.server.connection import Server, connection_of
from adapters.mongodb.server.questions import Questions
from adapters.mongodb.settings import MongoSettings

if TYPE_CHECKING:
    from engine.config.settings import Settings
    from engine.model import CollectionId, SignalRow


def write_signal(settings: Settings, table: CollectionId, row: SignalRow) -> None:
    """Insert the document. Raises SourceError."""
    with closing(Questions(Server(connection_of(settings.source_as(MongoSettings))))) as questions:
        questions.hello()
        questions.write_signal(table, row.id or "", row.type or "", row.data or "")
