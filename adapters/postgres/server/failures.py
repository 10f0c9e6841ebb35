"""The errors of PostgreSQL and its driver: which of our own they become, and what of them may be repeated.

Only the primary message, because detail and context quote rows. This module tells the server's errors from
those that the driver raises about values; `disclosure` decides which of the server's messages contain values.
"""

from __future__ import annotations

import psycopg
from psycopg import pq

from adapters.disclosure import postgres_message
from adapters.source.driver_errors import DriverErrors, ErrorMeaning, Fault
from engine.errors import SchemaChanged, SourceError, TableBusy

_LOCK_NOT_AVAILABLE = "55P03"
_NOT_THE_TABLES_FAULT = frozenset({"", "08", "53", "57", "58", "XX"})
"""SQLSTATE classes: none, connection, resources, operator intervention, system, internal."""
_OF_CONNECTIONS = (psycopg.OperationalError, psycopg.InterfaceError)
"""libpq's own errors, which have no SQLSTATE."""


def message_of(error: psycopg.Error) -> str:
    """An error's message, or the kind of error if the message may contain values."""
    if message := error.diag.message_primary:
        return postgres_message(error.sqlstate, message)
    if isinstance(error, _OF_CONNECTIONS) and str(error):
        return str(error).strip()
    return type(error).__name__


def fault_of(error: psycopg.Error) -> Fault:
    """What an error tells: its SQLSTATE and the class of that; empty texts without one."""
    state = error.sqlstate or ""
    return Fault(message_of(error), (state, state[:2]))


def result_message(result: pq.abc.PGresult) -> str:
    """What may be repeated of a failed command's result."""
    primary = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace")
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    return postgres_message(state, primary) or result.error_message.decode(errors="replace").strip()


source_errors = DriverErrors(psycopg.Error, fault_of, "postgresql")
"""Raises the driver's exceptions as SourceError."""

table_errors = source_errors.refined(
    ErrorMeaning(TableBusy, (_LOCK_NOT_AVAILABLE,), hint="another session holds it locked"),
    ErrorMeaning(SourceError, _NOT_THE_TABLES_FAULT, where="postgresql"),
    ErrorMeaning(SchemaChanged),
)
"""Raises TableBusy or SchemaChanged for a table, and SourceError where it is not the table's fault."""
