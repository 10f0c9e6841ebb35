"""What PostgreSQL's own tools reach: COPY for a table, pg_recvlogical for a log; nothing is kept."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

from tests.servers.binaries import client_tool

if TYPE_CHECKING:
    from tests.servers.postgres import Database

PUBLICATION = "bench"


def copy_seconds(database: Database, table: str) -> float:
    """How long `COPY table TO STDOUT` takes to a client that throws the bytes away."""
    command = ("psql", "--no-psqlrc", "--dbname", database.dsn(password=None))
    return _seconds(database, *command, "--command", f"COPY {table} TO STDOUT")


def receive_seconds(database: Database, slot: str, end: str) -> float:
    """How long pg_recvlogical takes to drain a slot up to `end`, an LSN behind which there is more log."""
    options = {"proto_version": "1", "publication_names": PUBLICATION, "messages": "true"}
    return _seconds(
        database,
        *("pg_recvlogical", "--dbname", database.dsn(password=None), "--slot", slot, "--start"),
        *("--endpos", end, "--no-loop", "--fsync-interval", "0", "--file", "/dev/null"),
        *(word for name, value in options.items() for word in ("--option", f"{name}={value}")),
    )


def row_bytes(database: Database, table: str) -> float:
    """Bytes of a row's text on average, by a sample."""
    with database.connect() as connection:
        row = connection.execute(
            f"SELECT avg(octet_length(x::text))::float8 FROM (SELECT * FROM {table} LIMIT 10000) x".encode()
        ).fetchone()
    return float(row[0]) if row else 0.0


def _seconds(database: Database, tool: str, *arguments: str) -> float:
    started = time.perf_counter()
    subprocess.run(
        [client_tool(tool), *arguments],
        check=True,
        env=database.server.client_environment(),
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - started
