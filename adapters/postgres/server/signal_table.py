"""Checks, before the log is read, that the signal table on the server can serve.

Owns the checks and the statements that repair what is missing. Without them, a signal written to a table
whose inserts are not in the log would be ignored silently. `signals` decides what the rows ask for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.postgres.server.publication import Publication
from adapters.postgres.server.sql import quote_ident, quote_table
from adapters.postgres.settings import PostgresSettings
from engine.config.settings import Watermarking
from engine.errors import ConfigError

if TYPE_CHECKING:
    from adapters.postgres.server.connection import Server
    from adapters.postgres.server.questions.signal_rows import FoundSignalTable
    from engine.config.settings import Settings
    from engine.model import CollectionId

_COLUMNS = "(id varchar(42) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048))"


def check_signal_table(server: Server, settings: Settings) -> None:
    """Raise ConfigError, with the statement to run, unless the configured signal table can serve.

    Does nothing if none is configured. Call it once the publication exists.
    """
    table = settings.signals.collection
    if table is None:
        return
    database, name = settings.source_as(PostgresSettings).database, quote_table(*table.parts[-2:])
    if len(table.parts) > 2 and table.parts[0] != database:
        raise ConfigError(
            f"the signal table {str(table)!r} is not in database {database!r}",
            hint="set signal.data.collection to a table of database.dbname",
        )
    publication = settings.source_as(PostgresSettings).publication
    with server.open() as questions:
        found = questions.signals.find(table)
        own = Publication(publication, lambda schema, name: (schema, name) == table.parts[-2:])
        published = bool(own.captured(questions.publications))
    if found is None:
        raise ConfigError(
            f"the signal table {str(table)!r} does not exist", hint=f"run: CREATE TABLE {name} {_COLUMNS}"
        )
    _check_signals(found, table, name)
    if not published:
        raise ConfigError(
            f"the signal table {str(table)!r} is not in publication {publication!r}",
            hint=f"run: ALTER PUBLICATION {quote_ident(publication)} ADD TABLE {name}",
        )
    _check_window_rows(found, table, name, settings)


def _check_signals(found: FoundSignalTable, table: CollectionId, name: str) -> None:
    if found.columns < 3:
        raise ConfigError(
            f"the signal table {str(table)!r} has {found.columns} columns, it needs id, type and data",
            hint=f"run: DROP TABLE {name}; CREATE TABLE {name} {_COLUMNS}",
        )


def _check_window_rows(found: FoundSignalTable, table: CollectionId, name: str, settings: Settings) -> None:
    """Check what a watermarking strategy that writes rows needs in addition."""
    strategy = settings.snapshot.watermarking
    if strategy is Watermarking.VISIBILITY:
        return
    deletes = strategy is Watermarking.INSERT_DELETE
    missing = [] if found.insert else ["INSERT"]
    missing += ["DELETE"] if deletes and not found.delete else []
    if missing:
        privileges, role = ", ".join(missing), quote_ident(settings.source_as(PostgresSettings).user)
        raise ConfigError(
            f"the role lacks {privileges} on the signal table {str(table)!r}, which {strategy.value!r} needs",
            hint=f"run: GRANT {privileges} ON {name} TO {role}",
        )
    if deletes and not found.identified:
        raise ConfigError(
            f"the signal table {str(table)!r} has no replica identity, which {strategy.value!r} needs",
            hint=f"run: ALTER TABLE {name} REPLICA IDENTITY FULL, or give it a primary key",
        )
