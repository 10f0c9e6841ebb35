"""Questions about the server's transactions and the end of its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString

import numpy as np

from adapters.postgres.server.failures import source_errors
from adapters.postgres.server.visibility import Visibility, parse_lsn
from engine.errors import SourceError

if TYPE_CHECKING:
    import psycopg

_VISIBLE: LiteralString = "SELECT pg_current_snapshot()::text, extract(epoch FROM clock_timestamp())::float8"
# age(x) is the distance to the next id; 3 is the first id that a transaction may have.
_UNASSIGNED: LiteralString = "SELECT pg_current_snapshot()::text, 3 + age('3'::xid)::bigint"
_IDENTITY: LiteralString = (
    "SELECT system_identifier::text, timeline_id FROM pg_control_system(), pg_control_checkpoint()"
)


class Transactions:
    """Questions about transactions and the log's end, over one connection."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def visible(self) -> tuple[Visibility, float]:
        """The visible transactions, and the server's time in Unix seconds."""
        with source_errors("asking which transactions are visible"):
            row = self._connection.execute(_VISIBLE).fetchone()
        shown, now_s = row or ("", 0.0)
        return Visibility.parse(shown), now_s

    def next_id(self) -> int:
        """The id that the next transaction will get."""
        with source_errors("asking for the next transaction id"):
            row = self._connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchone()
        return int(row[0]) if row else 0

    def unassigned(self) -> int:
        """An id that no transaction has got yet. Asking for it assigns none."""
        with source_errors("asking for the newest transaction id"):
            row = self._connection.execute(_UNASSIGNED).fetchone()
        shown, newest = row or ("1:1:", 0)
        visible = Visibility.parse(shown)
        return int(visible.widen(np.array([newest % (1 << 32)], np.int64))[0])

    def log_end(self) -> int:
        """Where the written log ends, as an LSN."""
        with source_errors("asking where the log ends"):
            row = self._connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        return parse_lsn(row[0] if row else "0/0")

    def insert_end(self) -> int:
        """Where the log ends that is not yet written, as an LSN."""
        with source_errors("asking where the log ends"):
            row = self._connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        return parse_lsn(row[0] if row else "0/0")

    def flush_log(self) -> None:
        """Commit an empty transaction, which makes the server flush its log."""
        with source_errors("flushing the log"):
            self._connection.execute("SELECT pg_current_xact_id()")

    def in_recovery(self) -> bool:
        """Whether the server is a standby."""
        with source_errors("recovery check"):
            row = self._connection.execute("SELECT pg_is_in_recovery()").fetchone()
        return bool(row and row[0])

    def identity(self) -> tuple[str, int]:
        """The server's system identifier, and the timeline of its last checkpoint."""
        with source_errors("identity"):
            row = self._connection.execute(_IDENTITY).fetchone()
        if row is None:
            raise SourceError("the server does not tell its identity")
        return row[0], int(row[1])
