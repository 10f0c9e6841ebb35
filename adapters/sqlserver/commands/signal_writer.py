"""Writes a signal into SQL Server's signal table, for commands."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from adapters.sqlserver.server import connection
from adapters.sqlserver.settings import SqlServerSettings
from engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.sqlserver.server.connection import Reach
    from engine.config.settings import Settings
    from engine.model import CollectionId, SignalRow

_COLUMNS = 3
"""The id, the type and the data."""


def write_signal(
    settings: Settings,
    table: CollectionId,
    row: SignalRow,
    reach: Callable[[SqlServerSettings], Reach] = connection.reach,
) -> None:
    """Insert the row. Raises SourceError, or ConfigError if the table is not captured."""
    sqlserver = settings.source_as(SqlServerSettings)
    server = connection.Server(reach(sqlserver), connection.login_of(sqlserver))
    with closing(server), closing(server.open(table.parts[0])) as questions:
        captures = questions.catalog.captures(lambda found: found == table)
        if not captures:
            raise ConfigError(
                f"the signal table {str(table)!r} has no capture instance",
                hint="enable it by sys.sp_cdc_enable_table",
            )
        described = questions.catalog.tables(captures)[0]
        names = [column.name for column in described.columns[:_COLUMNS]]
        questions.write_signal(table, names, row.id, row.type, row.data)
