"""The sink's connection to its database, and what its errors mean.

A connection is opened when it is needed, with the credentials that are current then. After an error it is
dropped. A statement that waits for a lock gives up after a while, and the turn is tried again.
"""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg.conninfo import make_conninfo

from adapters.disclosure import postgres_message
from engine.config.text.references import resolve_again
from engine.errors import SinkError, SinkRefused, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine.config.sinks.postgres_target import PostgresTarget

_DEFAULTS: Final = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""A server that acknowledges nothing is given up after half a minute."""
_OPTIONS: Final = (
    "-c client_encoding=UTF8 -c DateStyle=ISO -c IntervalStyle=postgres -c TimeZone=UTC -c lock_timeout=10s"
    " -c statement_timeout=0 -c idle_in_transaction_session_timeout=300s"
)
_PASSING: Final = frozenset({"", "08", "40", "53", "55", "57", "58", "XX"})
"""SQLSTATE classes that are no table's fault: none, connection, conflicts, resources, locks, the server."""
_CANCEL_S: Final = 5.0
_COLUMN: Final = re.compile(r", column ([^:]+):")


class Target:
    """A database. `owner` names the sessions of a job, of which there is one at a time."""

    def __init__(self, database: PostgresTarget, owner: str) -> None:
        self._parameters, self._owner, self.address = dict(database.parameters), owner, database.address
        self._open: psycopg.Connection | None = None

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection]:
        """The connection, in autocommit mode. It is dropped if anything fails inside. Raises SinkError."""
        done = False
        try:
            if self._open is None or self._open.closed:
                self._open = self._connect()
            yield self._open
            done = True
        except psycopg.Error as error:
            raise self.failure(error) from error
        finally:
            if not done:
                self.close()

    def _connect(self) -> psycopg.Connection:
        given = _fresh(self._parameters)
        options = f"{given.pop('options', '')} {_OPTIONS}".strip()
        conninfo = make_conninfo("", **{**_DEFAULTS, **given, "application_name": self._owner})
        return psycopg.connect(conninfo, options=options, autocommit=True)

    def failure(self, error: psycopg.Error) -> SinkError:
        """The error to raise for one that no table is to blame for."""
        kind = SinkRefused if _is_final(error) else SinkError
        return kind(message_of(error), where=self.address)

    def cancel(self) -> None:
        """Cancel the statement that another thread waits for, if there is one."""
        if self._open is not None and not self._open.closed:
            with suppress(psycopg.Error):
                self._open.cancel_safe(timeout=_CANCEL_S)

    def close(self) -> None:
        """Close the connection. A transaction in progress is rolled back."""
        if self._open is not None:
            self._open.close()
            self._open = None


def _fresh(parameters: Mapping[str, str]) -> dict[str, str]:
    try:
        return {name: resolve_again(value) for name, value in parameters.items()}
    except SourceError as error:
        raise error.recast(SinkError) from error


def _is_final(error: psycopg.Error) -> bool:
    """Whether only somebody who changes rights or names can help."""
    return (error.sqlstate or "")[:2] in {"42", "3F"}


def is_tables_fault(error: psycopg.Error) -> bool:
    """Whether the table that was written to refuses, and others may go on."""
    return (error.sqlstate or "")[:2] not in _PASSING


def message_of(error: psycopg.Error) -> str:
    """What may be repeated of an error: no value of a row, but the column if it is known."""
    if message := error.diag.message_primary:
        text = postgres_message(error.sqlstate, message)
        column = error.diag.column_name or _column_in(error.diag.context)
        names = [f"column {column!r}"] if column else []
        if constraint := error.diag.constraint_name:
            names.append(f"constraint {constraint!r}")
        return f"{text} ({', '.join(names)})" if names else text
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and str(error):
        return str(error).strip()
    return type(error).__name__


def _column_in(context: str | None) -> str:
    """The column that COPY has failed on; its value stands behind it."""
    found = _COLUMN.search(context or "")
    return found[1] if found else ""
