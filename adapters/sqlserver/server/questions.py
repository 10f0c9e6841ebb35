"""What the job asks of a database, and what it does there.

Whatever leaves for the server leaves through these classes, except for the queries that Spark runs. Methods
are named for what they answer, give typed values, and raise our own errors. A simulated server takes their
place: it subclasses them, and `Server.open` returns its own.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from adapters.sqlserver.server import metadata, table_statements
from adapters.sqlserver.server.catalog import Catalog
from adapters.sqlserver.server.change_tables import ChangeTables
from adapters.sqlserver.server.execution import rows, run
from adapters.sqlserver.server.failures import NO_SUCH_OBJECT, native_number, source_errors, table_errors
from adapters.sqlserver.server.position import LogPosition
from adapters.sqlserver.server.table_probes import TableProbes
from adapters.sqlserver.server.tsql import quote_name
from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from engine.model import CollectionId


class LogEndUnknown(SourceError):
    """The server does not say where its log ends. `lacking` names the view or the right that it takes."""

    lacking: str = ""


class Questions:
    """One connection to one database. Used by one thread.

    `catalog` asks about tables, `changes` about change tables, `probes` about the rows of tables.
    """

    def __init__(self, connection: Connection, database: str) -> None:
        self.database, self._connection = database, connection
        self.catalog = Catalog(connection, database)
        self.changes = ChangeTables(connection, database)
        self.probes = TableProbes(connection)

    def check(self) -> None:
        """Have a question answered, or raise what keeps the server from it."""
        with source_errors("connecting", self.database):
            rows(self._connection, metadata.SERVER)

    def log_end(self) -> LogPosition:
        """Where the transaction log ends. Raises LogEndUnknown."""
        with source_errors("asking where the log ends", self.database):
            try:
                found = rows(self._connection, table_statements.LOG_END)
            except SQLAlchemyError as error:
                if native_number(error) != NO_SUCH_OBJECT:
                    raise
                unknown = LogEndUnknown(
                    "the server does not have sys.dm_db_log_stats, which came with SQL Server 2016 SP2",
                    where=self.database,
                    hint="let windows write rows: read.only=false",
                )
                unknown.lacking = "sys.dm_db_log_stats (SQL Server 2016 SP2)"
                raise unknown from error
        if not found or not found[0][0]:
            unknown = LogEndUnknown(
                "the server does not say where its log ends",
                where=self.database,
                hint="GRANT VIEW DATABASE STATE, or let windows write rows: read.only=false",
            )
            unknown.lacking = "VIEW DATABASE STATE"
            raise unknown
        return LogPosition(str(found[0][0]).lower())

    # What the job does.

    def run(self, statement: str, what: str) -> None:
        """Run a statement. `what` it is goes into the error; rows that it gives are dropped."""
        with source_errors(what, self.database):
            run(self._connection, statement)

    def limit_lock_waits(self, timeout_ms: int) -> None:
        """Wait for a lock for at most this long from now on."""
        with source_errors("connecting", self.database):
            run(self._connection, f"SET LOCK_TIMEOUT {timeout_ms}")

    def write_signal(self, table: CollectionId, columns: Sequence[str], *row: str | None) -> None:
        """Insert a row into a signal table: an id, a type, and the data if it has any.

        `columns` are those of the id, the type and the data.
        """
        name = quote_name(*table.parts[1:])
        self._change_signals(table, table_statements.signal_row(name, columns, *row))

    def remove_signal(self, table: CollectionId, column: str, row_id: str) -> None:
        """Delete a row of a signal table. `column` is the id's."""
        self._change_signals(
            table, table_statements.signal_gone(quote_name(*table.parts[1:]), column, row_id)
        )

    def _change_signals(self, table: CollectionId, statement: str) -> None:
        with source_errors("writing to the signal table", str(table)):
            run(self._connection, statement)

    def begin(self, lock_timeout_ms: int) -> None:
        """Begin the transaction that locks tables. 0 milliseconds: wait for locks without a limit."""
        with source_errors("beginning the initial snapshot", self.database):
            if lock_timeout_ms:
                run(self._connection, f"SET LOCK_TIMEOUT {lock_timeout_ms}")
            run(self._connection, "BEGIN TRANSACTION")

    def lock(self, table: CollectionId) -> None:
        """Lock a table exclusively until the transaction ends. Raises TableBusy on a lock timeout."""
        with table_errors("locking the table", table):
            rows(self._connection, table_statements.lock(quote_name(*table.parts[1:])))

    def in_transaction(self) -> bool:
        """Whether the transaction is still open. It is not if the connection is gone."""
        try:
            return bool(rows(self._connection, table_statements.OPEN_TRANSACTIONS)[0][0])
        except SQLAlchemyError:
            return False

    def roll_back(self) -> None:
        """End the transaction, if the connection still has it."""
        with suppress(SQLAlchemyError):
            run(self._connection, "ROLLBACK TRANSACTION")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
