"""What may be said of PostgreSQL's errors, and of those of its driver.

The primary message alone: a detail and a context quote rows. Owns telling the server's errors from those
that the driver raises about values; which of the server's messages hold values is `disclosure`'s to judge.
"""

from __future__ import annotations

import psycopg
from psycopg import pq

from adapters.disclosure import postgres_message

_OF_CONNECTIONS = (psycopg.OperationalError, psycopg.InterfaceError)
"""What libpq says itself, and so without an SQLSTATE."""


def said(error: psycopg.Error) -> str:
    """An error's message, or what kind of error it is where the message may hold values."""
    if message := error.diag.message_primary:
        return postgres_message(error.sqlstate, message)
    if isinstance(error, _OF_CONNECTIONS) and str(error):
        return str(error).strip()
    return type(error).__name__


def said_of(result: pq.abc.PGresult) -> str:
    """The same of a failed command's result."""
    primary = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace")
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    return postgres_message(state, primary) or result.error_message.decode(errors="replace").strip()
