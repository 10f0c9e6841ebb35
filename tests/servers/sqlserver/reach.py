"""The way to the stand-in's databases: T-SQL in, through SQLAlchemy or Spark, PostgreSQL's SQL out.

Errors are worded as by Microsoft's ODBC driver, with the server's numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from sqlalchemy import create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from adapters.sqlserver.server.connection import Jdbc
from tests.servers.sqlserver.tsql import PARAMETER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Engine
    from sqlalchemy.engine.interfaces import ExceptionContext

    from tests.servers.sqlserver.server import SqlServer, StandInDatabase

_NUMBERS = {
    "42P01": 208,
    "42703": 207,
    "42883": 208,
    "3F000": 208,
    "40P01": 1205,
    "55P03": 1222,
    "40001": 3960,
    "23505": 2627,
    "22007": 241,
    "22P02": 245,
    "MS313": 313,
    "MS471": 4711,
    "57P01": 6005,
    "3D000": 4060,
    "28000": 18456,
}


class OdbcError(Exception):
    """An error as Microsoft's driver words it: SQLSTATE, and the message with the server's number."""


@dataclass(frozen=True, slots=True)
class StandInReach:
    """A `Reach` of the stand-in's databases."""

    server: SqlServer

    def engine(self, database: str) -> Engine:
        """An engine that takes T-SQL."""
        engine = create_engine(
            "postgresql+psycopg://",
            creator=lambda: self.connected(database),
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
        )
        event.listen(engine, "before_cursor_execute", self._translate(database), retval=True)
        event.listen(engine, "handle_error", _reworded)
        return engine

    def connected(self, database: str) -> psycopg.Connection[Any]:
        """A connection for the engine."""
        return self.server.postgres.connect(self.server.spelled(database), autocommit=True)

    def jdbc(self, database: str, query: str, session: Sequence[str] = ()) -> Jdbc:
        """The translated query for PostgreSQL's JDBC driver, whose sessions keep SETs."""
        sets = "; ".join(self._database(database).translate(statement).sql for statement in session)
        begins = {"sessionInitStatement": sets} if session else {}
        postgres = self.server.postgres
        return Jdbc(
            f"jdbc:postgresql://{postgres.host}:{postgres.port}/{self.server.spelled(database)}",
            "org.postgresql.Driver",
            self._database(database).translate(query).sql,
            {"user": postgres.user, "password": postgres.password, **begins},
        )

    def _database(self, name: str) -> StandInDatabase:
        return self.server.databases[self.server.spelled(name)]

    def _translate(self, database: str) -> Any:
        def translate(
            _connection: Any, cursor: Any, statement: str, parameters: Any, _context: Any, _many: Any
        ) -> tuple[str, Any]:
            translated = self._database(database).translate(statement)
            for before in translated.before:
                cursor.execute(before)
            return translated.sql.replace("%", "%%").replace(PARAMETER, "%s"), parameters

        return translate


def _reworded(context: ExceptionContext) -> BaseException | None:
    error = context.original_exception
    if not isinstance(error, psycopg.Error):
        return None
    state = error.sqlstate or "08S01"
    if "authentication failed" in str(error):
        state = "28000"
    number = _NUMBERS.get(state, 50000)
    said = str(error).splitlines()[0]
    orig = OdbcError(
        state,
        f"[{state}] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]{said} ({number}) (SQLExecDirectW)",
    )
    return DBAPIError(context.statement, context.parameters, orig)
