"""Looks at the databases of a SQL Server, and says what a job would lack there. `mend` runs a statement."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from adapters.sqlserver.server import connection
from adapters.sqlserver.server.catalog import uncaptured
from adapters.sqlserver.server.forks import not_seen
from adapters.sqlserver.server.tsql import quote_literal, quote_name
from adapters.sqlserver.settings import SqlServerSettings
from engine.config.findings import Distance, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from adapters.sqlserver.server.connection import Reach
    from adapters.sqlserver.server.questions import Questions
    from engine.config.settings import Settings
    from engine.model import Position

_SIGNALS = "(id varchar(42) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048))"


def inspect(
    settings: Settings, reach: Callable[[SqlServerSettings], Reach] = connection.reach
) -> list[Finding]:
    """What was found, database by database, in the order in which it should be mended. Raises SourceError."""
    sqlserver = settings.source_as(SqlServerSettings)
    found: list[Finding] = []
    with closing(connection.Server(reach(sqlserver), connection.login_of(sqlserver))) as server:
        for database in sqlserver.databases:
            with closing(server.open(database)) as questions:
                found += _findings(settings, questions)
    return found


def distance(
    settings: Settings,
    position: Position | None,
    reach: Callable[[SqlServerSettings], Reach] = connection.reach,
) -> Distance:
    """Where the change tables of each database end. LSNs have no distance. Raises SourceError."""
    sqlserver, ends = settings.source_as(SqlServerSettings), []
    with closing(connection.Server(reach(sqlserver), connection.login_of(sqlserver))) as server:
        for database in sqlserver.databases:
            with closing(server.open(database)) as questions:
                ends.append(str(questions.log_end()))
    reached = position is not None and [str(place) for place in position.order] == ends
    return Distance(", ".join(ends), behind_bytes=0 if reached else None)


def mend(
    settings: Settings, statement: str, reach: Callable[[SqlServerSettings], Reach] = connection.reach
) -> None:
    """Run a statement of a finding, which names its database. Raises SourceError."""
    sqlserver = settings.source_as(SqlServerSettings)
    server = connection.Server(reach(sqlserver), connection.login_of(sqlserver))
    with closing(server), closing(server.open(sqlserver.databases[0])) as questions:
        questions.run(statement, "mending the setup")


def _findings(settings: Settings, questions: Questions) -> Iterator[Finding]:
    database = questions.database
    there, found = f"USE {quote_name(database)};", questions.catalog.description()
    if found is None or not found.cdc:
        yield Finding(
            f"CDC is not enabled in database {database!r}",
            missing=True,
            statement=f"{there} EXEC sys.sp_cdc_enable_db",
        )
        return
    yield Finding(f"CDC is enabled in database {database!r}")
    if found.name != database:
        yield Finding(
            f"the server spells database {database!r} as {found.name!r}: a new job needs this spelling in"
            " database.names, one that has begun keeps its own"
        )
    if not found.writable:
        yield Finding(f"database {database!r} is a readable secondary or read-only", missing=True)
    if questions.catalog.fork() is None:
        yield Finding(not_seen(database))
    listed = [table for table in questions.catalog.listed() if settings.capture.captures(*table.id.parts[1:])]
    captures = questions.catalog.captures(lambda _table: True)
    signal = settings.source_as(SqlServerSettings).signal_table(database)
    if signal is not None and signal not in {table.id for table in questions.catalog.listed()}:
        create = f"{there} CREATE TABLE {quote_name(*signal.parts[1:])} {_SIGNALS}"
        yield Finding(f"the signal table {signal} does not exist", missing=True, statement=create)
    for table in uncaptured(listed, captures):
        schema, name = map(quote_literal, table.parts[1:])
        enable = f"{there} EXEC sys.sp_cdc_enable_table @source_schema = {schema}, @source_name = {name},"
        yield Finding(
            f"{table} is not captured by CDC", missing=True, statement=f"{enable} @role_name = NULL"
        )
    if questions.changes.greatest() is None:
        yield Finding(
            f"nothing was captured in {database!r} yet: does SQL Server Agent run?",
            missing=bool(captures),
        )
