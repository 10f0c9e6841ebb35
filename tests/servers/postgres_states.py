"""What tests do to a PostgreSQL server: commits that wait, ids about to begin again, a session beside."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.postgres import Database, PostgresServer

_RELOADED_S = 0.3


@contextlib.contextmanager
def no_standby(server: PostgresServer) -> Iterator[None]:
    """Commits wait for a synchronous standby that does not exist: they are in the log, and not visible."""
    with server.connect() as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        connection.execute("SELECT pg_reload_conf()")
        time.sleep(_RELOADED_S)
        try:
            yield
        finally:
            connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
            connection.execute("SELECT pg_reload_conf()")


def near_wraparound(server: PostgresServer, next_id: int) -> None:
    """Stop a running server. Its next transaction is then `next_id`; after 2**32 ids begin again."""
    with server.connect() as connection:
        connection.execute("ALTER DATABASE template0 ALLOW_CONNECTIONS true")
    for name in ("template0", "template1", "postgres"):
        with server.connect(name) as connection:
            connection.execute("VACUUM FREEZE")
    server.stop()
    segment = server.pgdata / "pg_xact" / "0FFF"
    segment.write_bytes(bytes(262_144))
    server._account.give(segment)
    ids = ["-x", str(next_id), "-e", "7", "-u", str(next_id - 100)]
    server.run_tool("pg_resetwal", *ids, str(server.pgdata))


def in_background(database: Database, statement: str) -> threading.Thread:
    """Execute a statement in a session of its own, which may wait."""

    def execute() -> None:
        with database.connect() as connection:
            connection.execute(statement.encode())

    thread = threading.Thread(target=execute, daemon=True)
    thread.start()
    return thread
