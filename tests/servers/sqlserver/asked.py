"""A test's own statements over the adapter's connections, whose failures become its errors."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from adapters.sqlserver.server.execution import rows
from adapters.sqlserver.server.failures import source_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from adapters.sqlserver.server.connection import Server


@contextmanager
def connected(server: Server, database: str) -> Iterator[Connection]:
    """A connection with autocommit."""
    with server.opened(database) as connection, source_errors("asking the server", database):
        yield connection


def asked(server: Server, database: str, statement: str) -> list[tuple[Any, ...]]:
    """The rows of a statement, over a connection of its own."""
    with connected(server, database) as connection:
        return rows(connection, statement)
