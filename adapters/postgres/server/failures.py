"""What may be repeated of the errors of PostgreSQL and its driver.

Only the primary message, because detail and context quote rows. This module tells the server's errors from
those that the driver raises about values; `disclosure` decides which of the server's messages contain values.
"""

from __future__ import annotations

import psycopg
from psycopg import pq

from adapters.disclosure import postgres_message

_OF_CONNECTIONS = (psycopg.OperationalError, psycopg.InterfaceError)
"""libpq's own errors, which have no SQLSTATE."""


def said(error: psycopg.Error) -> str:
    """An error's message, or the kind of error if the message may contain values."""
    if message := error.diag.message_primary:
        return postgres_message(error.sqlstate, message)
    if isinstance(error, _OF_CONNECTIONS) and str(error):
        return str(error).strip()
    return type(error).__name__


def said_of(result: pq.abc.PGresult) -> str:
    """What may be repeated of a failed command's result."""
    primary = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace")
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    return postgres_message(state, primary) or result.error_message.decode(errors="replace").strip()
