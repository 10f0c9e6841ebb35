"""Questions about sessions: whether they are alive, what locks they hold, and who waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString

from adapters.postgres.server.failures import source_errors

if TYPE_CHECKING:
    from collections.abc import Collection

    import psycopg

_SERVED: LiteralString = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = %s)"
_WAITED_FOR: LiteralString = (
    "SELECT DISTINCT b.pid FROM pg_locks l CROSS JOIN LATERAL unnest(pg_blocking_pids(l.pid)) AS b (pid)"
    " WHERE NOT l.granted AND b.pid = ANY (%s)"
)
_END: LiteralString = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE pid = %s AND usename = current_user AND application_name = 'tidemark'"
)
"""Checks user and application, because another session may have the pid by now."""
_WRITERS: LiteralString = """
WITH RECURSIVE tree (relid) AS (
    SELECT %(oid)s::oid
    UNION ALL SELECT i.inhrelid FROM tree JOIN pg_class c ON c.oid = tree.relid AND c.relkind = 'p'
    JOIN pg_inherits i ON i.inhparent = c.oid),
locks AS MATERIALIZED (SELECT * FROM pg_locks WHERE granted)
SELECT DISTINCT x.transactionid::text,
       coalesce('process ' || l.pid, 'prepared transaction ' || p.gid, 'somebody')
       || coalesce(' since ' || to_char(coalesce(a.xact_start, p.prepared), 'YYYY-MM-DD HH24:MI:SS'), '')
FROM locks l JOIN locks x ON x.virtualtransaction = l.virtualtransaction AND x.locktype = 'transactionid'
     AND x.mode = 'ExclusiveLock'
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_prepared_xacts p ON p.transaction = x.transactionid
WHERE l.locktype = 'relation' AND l.mode IN ('RowExclusiveLock', 'AccessExclusiveLock')
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.relation IN (SELECT relid FROM tree) AND l.pid IS DISTINCT FROM pg_backend_pid()
ORDER BY 1
"""
"""By transaction id, which a prepared transaction keeps. A transaction without an id has changed nothing."""
_WRITING: LiteralString = (
    "SELECT string_agg(format('pid %s since %s', pid, date_trunc('second', xact_start)), ', ')"
    " FROM pg_stat_activity WHERE backend_xid IS NOT NULL"
)


class Locks:
    """Questions about locks, over one connection."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def waited_for(self, pids: Collection[int]) -> frozenset[int]:
        """Those of these processes for whose locks another session waits."""
        with source_errors("lock check"):
            return frozenset(pid for (pid,) in self._connection.execute(_WAITED_FOR, [list(pids)]))

    def serves(self, pid: int) -> bool:
        """Whether a session's process exists. The driver's errors are the caller's: they are signs, too."""
        row = self._connection.execute(_SERVED, [pid]).fetchone()
        return row is not None and bool(row[0])

    def end(self, pid: int) -> None:
        """End one of our own sessions."""
        with source_errors("ending a session"):
            self._connection.execute(_END, [pid])

    def writers(self, oid: int) -> dict[str, str]:
        """The transactions that hold a writer's lock on a table or a partition of it, each described."""
        with source_errors("looking for open transactions"):
            return dict(self._connection.execute(_WRITERS, {"oid": oid}).fetchall())

    def writing(self) -> str:
        """The sessions whose transactions have written something, for people; empty if none can be seen."""
        with source_errors("looking for open transactions"):
            row = self._connection.execute(_WRITING).fetchone()
        return str(row[0] if row and row[0] else "")
