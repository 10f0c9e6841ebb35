"""Runs statements on a connection. Only the classes of questions use it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from sqlalchemy import Connection


def rows(connection: Connection, statement: str, parameters: tuple[bytes, ...] = ()) -> list[tuple[Any, ...]]:
    """The rows of a statement with a `?` for each parameter. Errors are left to the caller to wrap."""
    return [tuple(row) for row in connection.exec_driver_sql(statement, parameters or None).fetchall()]


def run(connection: Connection, statement: str) -> None:
    """Run a statement without result rows."""
    connection.exec_driver_sql(statement)


def portions(connection: Connection, statement: str, fetched: int) -> Generator[Sequence[Sequence[Any]]]:
    """The rows of a statement, some `fetched` of them at a time."""
    with closing(connection.exec_driver_sql(statement)) as answer:
        while found := answer.fetchmany(fetched):
            yield found
