"""The snapshot that a connection holds for others: its transaction, its locks, its name."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

import psycopg
from psycopg import generators, sql

from adapters.postgres.server.failures import source_errors, table_errors
from adapters.postgres.server.visibility import Visibility, normalised, parse_lsn
from engine.errors import SourceError

if TYPE_CHECKING:
    from engine.model import CollectionId

_EXPORT: LiteralString = (
    "SELECT pg_export_snapshot(), pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text,"
    " pg_size_bytes(current_setting('wal_segment_size')), pg_size_bytes(current_setting('wal_block_size'))"
)
"""The position is read while the statement runs, so after its snapshot."""
_REWRITTEN: LiteralString = (
    "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relfilenode <> 0"
    " AND c.relfilenode <> pg_relation_filenode(c.oid) AND c.oid IN"
    " (SELECT relation FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'AccessShareLock')"
)


@dataclass(frozen=True, slots=True)
class SnapshotExport:
    """A snapshot that other sessions can adopt: its id, and its text from `pg_current_snapshot()`.

    `horizon` is an LSN behind everything that the snapshot shows.
    """

    id: str
    text: str
    visibility: Visibility
    horizon: int


class Snapshots:
    """The transaction of one connection that holds a snapshot and locks for other sessions."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def begin(self, lock_timeout_ms: int | None = None) -> None:
        """Begin the transaction. Its snapshot is taken later."""
        with source_errors("exporting a snapshot"):
            self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            if lock_timeout_ms is not None:
                self._connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(lock_timeout_ms))

    def lock(self, table: CollectionId) -> None:
        """Lock a table against what is not MVCC-safe. Takes no snapshot. Raises TableBusy, SchemaChanged."""
        with table_errors("locking the table", table):
            self._connection.execute(
                sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(sql.Identifier(*table.parts))
            )

    def adopt(self, name: str) -> None:
        """See what another session's snapshot shows."""
        with source_errors("exporting a snapshot"):
            self._connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(name))

    def export(self) -> SnapshotExport:
        """The transaction's snapshot, for other sessions to adopt while the transaction lasts."""
        with source_errors("exporting a snapshot"):
            row = self._connection.execute(_EXPORT).fetchone()
        if row is None:
            raise SourceError("the server gave no snapshot")
        name, text, lsn, *sizes = row
        return SnapshotExport(name, text, Visibility.parse(text), normalised(parse_lsn(lsn), *sizes))

    def rewritten(self) -> list[str]:
        """Locked tables whose rows the snapshot can't show: it has their old file, the server a newer one."""
        with source_errors("checking what the snapshot shows"):
            return [str(name) for (name,) in self._connection.execute(_REWRITTEN).fetchall()]

    def ping(self) -> bool:
        """Ask whether the connection, and so its transaction, still exists."""
        try:
            self._connection.execute("SELECT")
        except psycopg.Error:
            return False
        return True

    def remove_timeouts(self, statement: str) -> None:
        """Let a transaction last as long as it must; `statement` sets the timeouts."""
        with source_errors("setting up a window's session"):
            self._connection.execute(statement.encode())

    def begin_ending(self) -> bool:
        """Ask the server to end the transaction, without waiting for its answer; False if that fails."""
        if self._connection.closed:
            return False
        with suppress(psycopg.Error):
            self._connection.pgconn.send_query(b"ROLLBACK")
            self._connection.pgconn.flush()
            return True
        return False

    def finish_ending(self) -> bool:
        """Take the answer to `begin_ending`; returns whether the connection can be used again."""
        try:
            self._connection.wait(generators.fetch_many(self._connection.pgconn))
        except psycopg.Error:
            return False
        return self.ping()
