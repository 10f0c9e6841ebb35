"""Table locks while an initial snapshot begins or until it is read: `snapshot.isolation.mode`.

Owns the transactions that hold them, one per database, and the log place that they fix: after every change
committed before the locks, and before every later one.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from adapters.sqlserver.server.connection import rows, run
from adapters.sqlserver.server.failures import NO_SUCH_OBJECT, native_number, source_errors, table_errors
from adapters.sqlserver.server.position import Place
from adapters.sqlserver.server.tsql import quote_name
from adapters.sqlserver.snapshot import table_statements
from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from adapters.sqlserver.server.connection import Server
    from engine.model import CollectionId

_log = logging.getLogger("adapters")


class Locks:
    """Exclusive locks on tables of several databases. Raises TableBusy on a lock timeout."""

    def __init__(self, server: Server, tables: Sequence[CollectionId], timeout_ms: int) -> None:
        self._server, self._timeout_ms = server, timeout_ms
        self._held: dict[str, Connection] = {}
        try:
            for table in tables:
                self._lock(table)
        except SourceError:
            self.release()
            raise

    def _lock(self, table: CollectionId) -> None:
        connection = self._transaction(table.parts[0])
        with table_errors("locking the table", table):
            rows(connection, table_statements.lock(quote_name(*table.parts[1:])))

    def _transaction(self, database: str) -> Connection:
        if database not in self._held:
            with source_errors("beginning the initial snapshot", database):
                connection = self._server.open(database)
                self._held[database] = connection
                if self._timeout_ms:
                    run(connection, f"SET LOCK_TIMEOUT {self._timeout_ms}")
                run(connection, "BEGIN TRANSACTION")
        return self._held[database]

    @property
    def alive(self) -> bool:
        """Whether all transactions are still open."""
        try:
            return all(rows(one, table_statements.OPEN_TRANSACTIONS)[0][0] for one in self._held.values())
        except SQLAlchemyError:
            return False

    def release(self) -> None:
        """End the transactions."""
        held, self._held = self._held, {}
        for connection in held.values():
            with suppress(SQLAlchemyError):
                run(connection, "ROLLBACK TRANSACTION")
            connection.close()


def log_end(connection: Connection, database: str, captured: Place) -> Place:
    """The end of the transaction log; the greatest captured LSN where the login may not see the end."""
    try:
        found = rows(connection, table_statements.LOG_END)
        lacking = "VIEW DATABASE STATE"
    except SQLAlchemyError as error:
        found = []
        old = native_number(error) == NO_SUCH_OBJECT
        lacking = "sys.dm_db_log_stats (SQL Server 2016 SP2)" if old else "VIEW DATABASE STATE"
    if found and found[0][0]:
        return max(captured, Place(str(found[0][0]).lower()))
    _log.warning(
        "database %s: without %s the log begins where it was captured last; changes that"
        " were not captured yet come again behind the rows that show them",
        *(database, lacking),
    )
    return captured
